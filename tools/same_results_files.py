"""Write the tiny files that the cases train on: a BERT, tables, tags, questions, STS suites.

All files are functions of fixed seeds, so both commits read the same bytes.
"""

import json
import random
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = (
    "a the big small red blue cat dog bird man woman child house tree river sees eats likes hates "
    "finds never always not and but very film story good bad great awful dull bright runs sleeps "
    "in on under near today there is was it this that who what why how do does ? . , ##s ##ed ' s"
).split()
PLAIN = WORDS[:40]
MOODS = ["awful", "bad", "dull", "good", "great"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WIDTH, LAYERS, HEADS, INNER, POSITIONS = 32, 3, 4, 64, 64
SPLITS = {"train": 40, "dev": 14, "test": 6}
ENTITIES = {"PER": ["man", "woman"], "ANIMAL": ["cat", "dog"], "PLACE": ["house", "river"]}
ASKS = {"PER": "who is there ?", "ANIMAL": "what is there ?", "PLACE": "why there ?"}
SUITES = {
    "STS12": ["MSRpar", "MSRvid"],
    "STS13": ["FNWN"],
    "STS14": ["images"],
    "STS15": ["belief"],
    "STS16": ["headlines"],
    "STS-B": ["test"],
    "SICK-R": ["train", "dev", "test"],
}


def write_files(directory: Path) -> None:
    """Write everything below ``directory``: ``bert``, ``generator``, ``sts`` and the tables."""
    write_bert(directory / "bert", seed=0)
    write_bert(directory / "generator", seed=1)
    write_tables(directory)
    write_triplets(directory)
    write_tags_and_questions(directory)
    write_choices(directory)
    write_suites(directory / "sts")
    texts = sentences(random.Random(7), 60)
    (directory / "texts.txt").write_text("\n".join(texts) + "\n")
    pairs = [f"{first}\t{second}" for first, second in zip(texts[:9], texts[9:18], strict=True)]
    (directory / "own_pairs.txt").write_text("\n".join(pairs) + "\n")


def sentences(draw: random.Random, count: int) -> list[str]:
    """Random sentences of 3 to 9 words."""
    return [" ".join(draw.choices(PLAIN, k=draw.randint(3, 9))) for _ in range(count)]


def write_bert(directory: Path, seed: int) -> None:
    """A checkpoint of BERT with its masked-language-model head, all weights random."""
    directory.mkdir(parents=True)
    vocabulary = [*SPECIAL, *WORDS]
    config = {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        "vocab_size": len(vocabulary),
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
        "pad_token_id": 0,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "layer_norm_eps": 1e-12,
        "tie_word_embeddings": True,
    }
    (directory / "config.json").write_text(json.dumps(config))
    write_tokenizer(directory, {word: number for number, word in enumerate(vocabulary)})
    draw = np.random.default_rng(seed)
    weights = {
        name: ("LayerNorm.weight" in name) + 0.15 * draw.standard_normal(shape)
        for name, shape in weight_shapes(len(vocabulary)).items()
    }
    saved = {name: value.astype(np.float32) for name, value in weights.items()}
    save_file(saved, directory / "model.safetensors", {"format": "pt"})


def weight_shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all weights, as `transformers` names them."""
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, rows: int, columns: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (rows, columns), (rows,)

    def norm(name: str) -> None:
        shapes[f"{name}.LayerNorm.weight"] = shapes[f"{name}.LayerNorm.bias"] = (WIDTH,)

    embeddings = {"word": vocabulary, "position": POSITIONS, "token_type": 2}
    for kind, rows in embeddings.items():
        shapes[f"bert.embeddings.{kind}_embeddings.weight"] = (rows, WIDTH)
    norm("bert.embeddings")
    for layer in range(LAYERS):
        prefix = f"bert.encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            linear(f"{prefix}.attention.{part}", WIDTH, WIDTH)
        norm(f"{prefix}.attention.output")
        linear(f"{prefix}.intermediate.dense", INNER, WIDTH)
        linear(f"{prefix}.output.dense", WIDTH, INNER)
        norm(f"{prefix}.output")
    linear("bert.pooler.dense", WIDTH, WIDTH)
    linear("cls.predictions.transform.dense", WIDTH, WIDTH)
    norm("cls.predictions.transform")
    shapes["cls.predictions.bias"] = (vocabulary,)
    return shapes


def write_tokenizer(directory: Path, vocabulary: dict[str, int]) -> None:
    """A WordPiece tokenizer of these words."""
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    names = {f"{word.strip('[]').lower()}_token": word for word in SPECIAL}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings | names))


def write_table(file: Path, header: list[str], rows: list[list[object]]) -> None:
    """A tab-separated file with a header."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join("\t".join(map(str, row)) + "\n" for row in [header, *rows]))


def write_lines(file: Path, records: list[dict[str, object]]) -> None:
    """A JSON-lines file."""
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def write_tables(directory: Path) -> None:
    """`sst`, `qqp` and `sts` in the course's layout, and `labels` with several classes per row."""
    draw = random.Random(0)
    for split, size in SPLITS.items():
        sst, qqp, sts, labels = [], [], [], []
        for i in range(size):
            mood = i % 5
            text, first, other, more = sentences(draw, 4)
            second = first if i % 2 else other
            score = round(5 * (i % 6) / 5, 1)
            third = first if score > 2.5 else more
            named = sorted({MOODS[mood], draw.choice(MOODS)} if i % 4 else ())
            sst.append([f"s{i}", f"{text} {MOODS[mood]} .", mood, round(draw.uniform(0, 5), 2)])
            qqp.append([f"q{i}", f"{first} ?", f"{second} ?", i % 2])
            sts.append([f"t{i}", f"{first} .", f"{third} {MOODS[mood]} .", score])
            labels.append({"id": f"l{i}", "text": " ".join([text, *named]), "labels": named})
        pair = ["id", "sentence1", "sentence2"]
        write_table(directory / f"sst-{split}.tsv", ["id", "sentence", "label", "stars"], sst)
        write_table(directory / f"qqp-{split}.tsv", [*pair, "is_duplicate"], qqp)
        write_table(directory / f"sts-{split}.tsv", [*pair, "similarity"], sts)
        write_lines(directory / f"labels-{split}.jsonl", labels)


def write_choices(directory: Path) -> None:
    """Rows of a context and three endings; the right one has a mood."""
    draw = random.Random(9)
    for split, size in SPLITS.items():
        rows: list[dict[str, object]] = []
        for i in range(size):
            context, *endings = sentences(draw, 4)
            label = draw.randrange(3)
            endings[label] += f" {MOODS[i % 5]}"
            rows.append({"id": f"c{i}", "context": context, "endings": endings, "label": label})
        write_lines(directory / f"choices-{split}.jsonl", rows)


def write_triplets(directory: Path) -> None:
    """Triplets: the positive shares words with the anchor, the negative has none of them."""
    draw, rows = random.Random(1), []
    for i in range(40):
        words = draw.sample(PLAIN, 10)
        negative = draw.sample(sorted(set(PLAIN) - set(words)), 5)
        rows.append([" ".join(part) for part in (words[:6], words[2:7], negative)] + [str(i % 2)])
    write_table(directory / "triplets.tsv", ["anchor", "positive", "negative", "kind"], rows)


def tagged_words(draw: random.Random) -> tuple[list[str], list[str]]:
    """Words and IOB2 tags: an entity of each kind between other words."""
    words: list[str] = []
    tags: list[str] = []
    for kind in draw.sample(list(ENTITIES), 3):
        fillers = draw.choices(["sees", "eats", "and", "never", "today"], k=draw.randint(1, 3))
        entity = draw.choice([[word] for word in ENTITIES[kind]] + [ENTITIES[kind]])
        words += [*fillers, *entity]
        tags += ["O"] * len(fillers) + [f"B-{kind}"] + [f"I-{kind}"] * (len(entity) - 1)
    return words, tags


def write_tags_and_questions(directory: Path) -> None:
    """`tags` (a tag per word) and `spans` (a question whose answer is in the context)."""
    draw = random.Random(2)
    for split, size in SPLITS.items():
        tags: list[dict[str, object]] = []
        spans: list[dict[str, object]] = []
        for i in range(size):
            words, named = tagged_words(draw)
            tags.append({"tokens": words, "tags": named})
            kind = draw.choice(list(ENTITIES))
            first = named.index(f"B-{kind}")
            last = first + (named[first + 1 : first + 2] == [f"I-{kind}"])
            start = len(" ".join([*words[:first], ""]))
            answers = {"text": [" ".join(words[first : last + 1])], "answer_start": [start]}
            row = {"id": f"a{i}", "question": ASKS[kind], "context": " ".join(words)}
            spans.append({**row, "answers": answers})
        write_lines(directory / f"tags-{split}.jsonl", tags)
        write_lines(directory / f"spans-{split}.jsonl", spans)


def write_suites(directory: Path) -> None:
    """The seven STS suites: pairs that share more words the higher their score is."""
    draw = random.Random(3)
    for suite, subsets in SUITES.items():
        for subset in subsets:
            rows: list[list[object]] = []
            for i in range(21):
                first, other = draw.choices(PLAIN, k=6), draw.choices(PLAIN, k=6)
                second = first[: i % 7] + other[i % 7 :]
                low = suite == "SICK-R"  # its scores begin at 1
                score = low + (5 - low) * (i % 7) / 6
                rows.append([" ".join(first), " ".join(second), round(score, 3)])
            header = ["sentence1", "sentence2", "score"]
            write_table(directory / suite / f"{subset}.tsv", header, rows)
