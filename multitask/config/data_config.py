# Tested by tests/config/test_schema.py
"""``tasks.NAME.data``: where a task's rows come from."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from multitask.config.base import PathText, Strict, mistake

DataFormat = Literal[
    "auto", "csv", "tsv", "jsonl", "txt", "conll", "documents", "parquet", "disk", "hub"
]
TEXT_KEYS = ("text", "text2", "text3", "text4")  # the keys that name columns of texts


# `1` as well as `"1"`
Text = Annotated[str, BeforeValidator(lambda v: str(v) if isinstance(v, int | float) else v)]


class DataConfig(Strict):
    """Where a task's rows come from, and how they are read."""

    @property
    def scored(self) -> tuple[str, ...]:
        """The splits that a run scores, of dev and test.

        Dev may also be a share of train, or the dev rows of other tasks.
        """
        dev = self.dev or self.dev_share or self.texts_of
        return tuple(name for name, source in (("dev", dev), ("test", self.test)) if source)

    @property
    def choice_columns(self) -> list[str]:
        """The columns that ``choices`` names: one per ending, or one with lists; else none."""
        return [self.choices] if isinstance(self.choices, str) else self.choices or []

    format: DataFormat = "auto"
    """How to read `train`, `dev` and `test`. `auto`: by the ending of the file. `csv` and `tsv`:
    separated by comma or tab, whatever the ending. If the header line has more of another separator
    (comma, tab, `;`, `|`), that one is used: the CS224N `.csv` files are separated by tabs.
    `jsonl`: one object per line, or one list of objects; a number is its text in the file, as in
    CSV, so `1` and `1.0` are two classes. `txt`: one text per line, no header. `conll`: one word
    per line with its tag in the last column, and a blank line between sentences. `documents`: one
    sentence per line and a blank line between documents, read as pairs of a sentence and the next
    one (label 1) or one of another document (0). `disk`: `path` is a directory that
    `DatasetDict.save_to_disk` wrote. `hub`: `path` is a hub id, or a local directory that
    `load_dataset` reads; cells of CSV are texts. `train`, `dev` and `test` can be parts of splits,
    such as `train[:50%]` or `train+validation`."""

    path: PathText | None = None
    """Hub id or directory of a data set (`format: hub` or `disk`)."""

    subset: str | None = None
    """Configuration name of a hub data set."""

    train: PathText | None = None
    """Training rows: a file (relative to `data_dir`) or the name of a split."""

    dev: PathText | None = None
    """Development rows: a file or the name of a split. In `train`, `dev` and `test` a `*` in a file
    name joins all files that match, in the order of their names, such as `STS12/*.tsv`."""

    dev_share: float | None = Field(None, gt=0, lt=1)
    """Instead of `dev`: move about this share of the training rows to dev. A hash of the first text
    decides, so equal texts stay together and every run has the same rows."""

    test: PathText | None = None
    """Rows to predict, labelled or not: a file or the name of a split."""

    quoting: bool = True
    """csv and tsv: standard CSV quoting. `false`: a `"` is an ordinary character, as in the GLUE
    files."""

    header: list[str] | None = Field(None, min_length=1)
    """csv and tsv: the names of the columns, for files without a header line such as CoLA's. A file
    has a header line if its first line contains the name of the `text` column."""

    text: str = "sentence"
    """Column of the (first) text, or of the list of words if each word has a tag."""

    text2: str | None = None
    """Column of the second text of a pair. With `choices`, a text before each ending, such as the
    question of RACE."""

    text3: str | None = None
    """Column of the third text, such as the hard negative of a triplet."""

    text4: str | None = None
    """Column of a fourth text, for an input that reads it."""

    choices: str | list[str] | None = None
    """Several choices: the columns of the endings, such as `[ending0, ending1, ending2, ending3]`,
    or one column with the list of endings, such as `endings`. A cell may also be
    `{"label": ["A", "B"], "text": [...]}`. All rows have the same number of endings. `label` is the
    number of the right one from 0, its letter from A, or its `label`."""

    where: dict[str, Text] | None = None
    """Keep only rows with these values in these columns, such as `{is_duplicate: 1}`, in every
    split that has the columns."""

    label: str = "label"
    """Column of the label, of the list of tags (one per word), or of the answers to a question,
    `{"text": [...], "answer_start": [...]}`."""

    id: str | None = None
    """Column of the id of a row; default: the row number."""

    labels: dict[str, str] | None = None
    """Class labels in the order of their ids: a mapping from the value in the file to a name, or a
    list of values. Two values with the same name are one class. A value in the file that is not in
    the mapping may be another spelling of one that is: `1.0` or `+1` for `1`, `True` for `true`,
    and white space around it. `01`, `1e0` and `1_1` are not spellings of `1`. Default: the names
    that a data set gives its numbers (`ClassLabel`); else each different value in train is a class.
    For a binary head the values are 0 and 1 (or false and true)."""

    ordered: bool = False
    """The classes are in order, from the lowest to the highest, as the five degrees of SST-5. Then
    the report has `mae`, the mean distance in classes between prediction and label. The head
    `ordinal` implies it. Words need `labels`, which has the order."""

    label_separator: str = Field(",", min_length=1)
    """Several classes per row: the separator in a text such as `3,10`. JSON and Parquet may have
    lists. A text written as a list, such as `[3, 10]` or `['joy', 'fear']`, is a list in every
    format. A row without classes has an empty list, or an empty text with `unlabelled: []`."""

    padding_label: Text | None = None
    """Several classes or tags per row: the value that fills up lists of one length, such as `0` in
    `[2, 6, 7, 0, 0]`. It means no label. In a list of tags only values after the last word are
    padding."""

    label_vectors: bool | None = None
    """Several classes per row: `true` reads a vector of one 0 or 1 per class, such as
    `[0.0, 1.0, 0.0, 0.0]` or a text `0,1,0,0`. The classes are those of `labels`, in that order;
    without `labels` their names are the numbers from 0. `false` and default: a list of 0 and 1 has
    the classes 0 and 1. By default a column with no other classes is refused."""

    tag_scheme: Literal["IOB2", "IOB1", "IOE2", "IOE1", "IOBES", "BILOU", "repair"] = "IOB2"
    """How the tags of words mark entities. Tags that the scheme cannot produce, such as those of
    CoNLL-2003 (IOB1) in IOB2, are an error. Predicted tags that break it mark no entity. `repair`
    changes such tags of the data, as the first of IOB2, IOE2, IOBES and BILOU that has all tags
    demands, and says how many: in IOB2 an `I-` without a `B-` before it becomes `B-`."""

    label_range: list[float] | None = Field(None, min_length=2, max_length=2)
    """Lowest and highest value of a numeric label, such as `[0, 5]`."""

    unlabelled: list[Text] = [""]
    """Label values that mean 'no label'. Such rows are counted."""

    same_rows_as: str | None = None
    """Use the rows of another task with a different label column. Both tasks are trained in the
    turns of that task, with one encoder pass. Set only `label`, `labels`, `label_range` and
    `unlabelled` in addition. A row may lack one of the labels."""

    texts_of: list[str] | None = Field(None, min_length=1)
    """For masked language modelling, or contrastive learning with `input: single`: use the texts of
    these tasks instead of `train` and `dev`. Their training rows are trained, their dev rows are
    scored. Each distinct text is used once, and the two texts of a pair separately."""

    corpus: str | None = None
    """Name of the corpus that the rows come from. A warning is printed if the encoder has seen it
    (`encoder.seen_corpora`)."""

    @field_validator("labels", mode="before")
    @classmethod
    def _labels(cls, value: Any) -> Any:
        if isinstance(value, list):
            value = {str(item): item for item in value}
        if isinstance(value, dict):
            if any(isinstance(name, dict | list | None) for name in value.values()):
                raise ValueError("expected a name for every value")
            value = {str(key): str(name) for key, name in value.items()}
            if len(set(value.values())) < 2:
                raise ValueError("at least two classes are needed")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if isinstance(self.choices, list) and len(self.choices) < 2:
            raise mistake("choices", "expected a column of lists, or at least two columns")
        if self.label_range and self.label_range[0] >= self.label_range[1]:
            raise mistake("label_range", "expected [lowest, highest] with lowest < highest")
        for key in ("train", "dev", "test") if self.texts_of else ():
            if getattr(self, key) is not None:
                raise mistake(key, "`texts_of` says whose rows these are: leave this out")
        if self.dev_share and (self.dev or self.texts_of):
            raise mistake("dev_share", "it replaces `dev` and `texts_of`: leave it out")
        if self.format in ("disk", "hub") and not self.path and not self.texts_of:
            raise mistake("format", f"format {self.format} needs `path`")
        if self.label_vectors and self.padding_label is not None:
            raise mistake("padding_label", "`label_vectors` need no padding: leave this out")
        if self.labels and self.label_range:
            message = "`labels` (classes) and `label_range` (numbers) exclude each other"
            raise mistake("label_range", f"{message}: set one of them to null")
        return self
