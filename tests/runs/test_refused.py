"""Methods that do not go together: one line that begins with the key, before anything is trained.

Each row has a config, what changes it, and what the line says: the key, and the kind of mistake.
"""

import re

import pytest
import torch

from multitask.config import load_config
from multitask.training.setup import set_up
from multitask.utils.errors import UserError
from tests.support.choices_run import write_choices
from tests.support.masked_lm_run import CONFIG, FAST, tiny

ALONE = ["tasks.qqp=null", "tasks.sts=null"]
JOINT = ["training.combine=joint"]
PCGRAD = "training.gradient_surgery=pcgrad"
# scored with the head of another task, never trained
MORE = "tasks.more={data: {dev: ids-sst-dev.csv, text: sentence, label: sentiment}, "
MORE += "share_head: sst, max_length: 48}"
MLM = "tasks.mlm={data: {texts_of: [sst]}, pooling: tokens, head: masked_lm, max_length: 48}"
ROWS = "tasks.more={pooling: cls, max_length: 24, head: %s, data: {same_rows_as: ending, label: x}}"
SHARED = "{format: tsv, dev: sts-dev.csv, text: sentence1, text2: sentence2, label: similarity}"


def surgery(**options: object) -> list[str]:
    given = ", ".join(f"{name}: {value}" for name, value in options.items())
    return [f"training.gradient_surgery={{{given}}}", *JOINT]


COURSE = [
    # SMART
    ("tasks.sst.smart={eps: -1e-5}", "sst.smart.eps: .*greater"),
    ("tasks.sst.smart={weight: -1.0}", "sst.smart.weight: .*greater"),
    (["tasks.sst.projection=tanh", "tasks.sst.eval_pooling=mean"], "sst.eval_pooling: "),
    ("tasks.sst.smart={eps: .nan}", "sst.smart.eps: .*finite"),
    ("tasks.sst.smart={weight: .inf}", "sst.smart.weight: .*finite"),
    ("tasks.sst.smart={eps: small}", "sst.smart.eps: .*'small'"),
    ("tasks.sst.smart={lambda: 1}", "sst.smart.lambda: unknown"),
    ([MLM, "tasks.mlm.smart={}"], "'masked_lm' has no distance.*`tasks.mlm.smart: null`"),
    ([MLM, "defaults.smart={}"], "'masked_lm' has no distance.*`tasks.mlm.smart: null`"),
    # gradient surgery
    (PCGRAD, "gradient_surgery: .*`combine: joint`"),
    ([PCGRAD, *JOINT, "stages=[{name: first}, {name: second, combine: alternate}]"],
     "gradient_surgery: .*stage second"),
    ([PCGRAD, *ALONE], "gradient_surgery: in no stage"),
    ([PCGRAD, *ALONE, MORE], "gradient_surgery: in no stage"),
    (["training.conflict_steps=5", *ALONE], "conflict_steps: in no stage"),
    ([PCGRAD, *JOINT, "encoder.freeze=true"], "gradient_surgery: in no stage"),
    ([PCGRAD, *JOINT, "stages=[{freeze: [encoder]}, {tasks: [sst]}]"],
     "gradient_surgery: in no stage"),
    ("training.gradient_surgery=pcgard", "gradient_surgery: .*'pcgrad'"),
    (surgery(name="cagrad", c="much"), "gradient_surgery.c: .*number"),
    (surgery(name="cagrad", c=5.0), "gradient_surgery.c: .*not 5.0"),
    (surgery(name="cagrad", c=1.0), "gradient_surgery.c: .*not 1.0"),
    (surgery(name="cagrad", c=-0.1), "gradient_surgery.c: .*not -0.1"),
    (surgery(name="gradvac", beta=2.0), "gradient_surgery.beta: .*not 2.0"),
    # adapters
    ("tasks.sst.adapter=pall", "sst.adapter: unknown .*'pal"),
    ("tasks.sst.adapter={name: pal, size: 50}", "sst.adapter.*12 heads, size 50"),
    ("tasks.sst.adapter={name: pal, sice: 60}", "sst.adapter.sice: "),
    ("tasks.sst.adapter={name: pal, layers: [7]}", "sst.adapter.layers: "),
    (["tasks.sst.adapter=pal", "encoder.implementation=transformers"], "sst.adapter: .*our own"),
    ("tasks.sst.adapter_lr=0", "sst.adapter_lr: "),
    ("stages=[{freeze: [sst.adapter]}]", "stages.0.freeze.0: .*'sst.adapter'"),
    # poolers that do not fit the encoder
    ("tasks.sst.pooling=max_seq_mha", "sst.pooling.*last .*2 layers"),
    ("tasks.sst.pooling={name: mha, heads: 5}", "sst.pooling.*5 heads, width 32"),
    ("tasks.sst.pooling={name: hire, layers: [3]}", "sst.pooling.*layers .*numbers"),
    ("tasks.sst.pooling={name: hire, gru_layers: 1}", "sst.pooling.*no option 'gru_layers'"),
    ("tasks.sst.pooling={name: mean, layers: 2}", "sst.pooling.*no option 'layers'"),
    ("tasks.qqp.eval_pooling=hire", "qqp.eval_pooling: .*parameters"),
    ("tasks.qqp.eval_pooling=concat", "qqp.eval_pooling: .*64 .*32"),
    # heads and projections
    ("tasks.sst.head={name: classification, class_weights: [1]}", "sst.head.*5 numbers"),
    ("tasks.sst.projection={name: tanh, output_dim: 0}", "sst.projection.*at least 1"),
    (["tasks.sst.projection={name: linear, output_dim: 7}", "tasks.sst.head.linear=3"],
     "sst.head.*no option 'linear'"),
    # the quantised encoder, and one from scratch
    ("encoder.bitlinear={layers: inner}", "encoder.bitlinear.layers: none"),
    ("encoder.bitlinear={gradual: 1.5}", "encoder.bitlinear.gradual"),
    (["encoder.bitlinear={}", "encoder.implementation=transformers"], "encoder.bitlinear: .*own"),
    (["encoder.from_scratch=true", "encoder.implementation=transformers"],
     "encoder.from_scratch: .*own"),
    (["encoder.reinit_layers=1", "encoder.implementation=transformers"],
     "encoder.reinit_layers: .*own"),
    (["encoder.kernels=compiled", "encoder.implementation=transformers"],
     "encoder.kernels: .*own"),
    (["encoder.from_scratch=true", "init_from=runs/x"], "encoder.from_scratch: `init_from`"),
]  # fmt: skip
MASKED = [
    ("tasks.mlm.pooling=mean", "mlm.*`pooling: tokens`"),
    ("tasks.sst.pooling=tokens", "sst.*'classification' does not look at tokens"),
    ("tasks.sst.data={texts_of: [qqp], label: sentiment}", "`texts_of`|expected"),
    ("tasks.mlm.data.texts_of=[sst, qpq]", "texts_of.*'qqp'"),
    ("tasks.mlm.data.texts_of=[mlm]", "texts_of.*training rows"),
    ("tasks.mlm.data.texts_of=[]", "texts_of.*at least"),
    ("tasks.mlm.data.train=x.csv", "mlm.data.train.*`texts_of`"),
    ("tasks.mlm.data.labels=[a, b]", "mlm.data.labels: .*masked tokens"),
    ("tasks.mlm.data={texts_of: null, same_rows_as: sst}", "mlm.data: .*share rows"),
    ("tasks.mlm.metric=f1", "mlm.metric: .*not 'f1'"),
    ("tasks.mlm.head.mask_share=1.5", "mlm.head.*mask_share"),
    ("tasks.mlm.head.whole_word=true", "mlm.head.*'whole_words'"),
    ("tasks.mlm.course_file={name: mlm, column: X}", "mlm.course_file"),
    ("training.sampler={name: round_robin, oversample: {while_train_score_below: 0.4}}",
     "mlm has no training score"),
]  # fmt: skip
CONTRASTIVE = [
    ("tasks.views.input=cross", "views.*`data.text2`"),
    ("tasks.views.input=triplet", "views.*`data.text2`"),
    ("tasks.views.pooling=tokens", "views.*tokens"),
    ("tasks.views.batch_size=1", "views.batch_size: "),
    ("encoder.freeze=true", "one vector"),
    ("tasks.views.head={name: contrastive, temperature: 0}", "views.head.*positive"),
    ("tasks.views.data.labels=[a, b]", "views.data.labels: "),
    ("tasks.views.data.where={kinds: 1}", "where.*'kind'"),
    ("tasks.views.data.dev=triplets.tsv", "replaces `dev`"),
    ("tasks.views.metric=spearman", "views.metric: .*probability, accuracy"),
    ("tasks.views.course_file={name: a, column: b}", "views.course_file: head"),
    ("tasks.views.eval_pooling=layer_attention", "eval_pooling: .*trained"),
    ("tasks.views.eval_pooling=tokens", "eval_pooling: .*no pooling"),
    (["tasks.views.eval_pooling=mean", "stages=null",
      "tasks.sts.head={name: cosine_regression, linear: true}"], "sts.eval_pooling: "),
    ("tasks.sts.pooling=max", "sts.pooling: .*'views'"),
    # scored at the end alone
    ([f"tasks.more={{share_head: sts, data: {SHARED}}}", "training.select=more"],
     "training.select: "),
    (["tasks.views.head.mlp_only_train=true", "tasks.views.projection=null",
      "tasks.sts.projection=null"], "`mlp_only_train` needs one"),
    (["tasks.views.head.mlp_only_train=true", "stages=null",
      "tasks.sts.head={name: cosine_regression, linear: true}"], "sts.share_pooling: "),
    (["tasks.views.input=cross", "tasks.views.data.text2=positive"], "`input: single` or"),
    (["tasks.views.input=triplet", "tasks.views.data.text2=positive",
      "tasks.views.data.text3=negative", "tasks.views.head=cosine_regression"],
     "`input: siamese`"),
]  # fmt: skip
CHOICES = [
    ("tasks.ending.head=classification", "ending.*`input: single` or `input: cross`"),
    ("tasks.ending.data.labels=[a, b]", "ending.data.labels: "),
    (ROWS % "multiple_choice, input: choices", "cannot share rows"),
    (ROWS % "classification", "cannot share rows"),
]
ROWS_OF = {"course": COURSE, "masked": MASKED, "contrastive": CONTRASTIVE, "choices": CHOICES}


@pytest.fixture
def given(request, tiny_encoder, course_files, tmp_path):
    """A config of each kind, as its file and what makes it a run of seconds."""
    if request.param == "course":
        return "configs/cs224n.yaml", request.getfixturevalue("tiny_overrides")
    if request.param == "masked":
        return CONFIG, [*tiny(tiny_encoder, course_files), *FAST]
    if request.param == "contrastive":
        return request.getfixturevalue("contrastive_config")(), []
    return write_choices(tmp_path, tiny_encoder, train=4, dev=3), []


@pytest.mark.parametrize(
    ("given", "changes", "line"),
    [(kind, *row) for kind, rows in ROWS_OF.items() for row in rows],
    indirect=["given"],
)
def test_what_does_not_go_together_is_one_line(given, changes, line):
    file, overrides = given
    changes = [changes] if isinstance(changes, str) else changes
    with pytest.raises(UserError) as caught:
        set_up(load_config(file, [*overrides, *changes]), torch.device("cpu"), lambda said: None)
    said = str(caught.value)
    assert re.search(line, said) and "\n" not in said
