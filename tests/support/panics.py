"""Panics of the Rust library `tokenizers`: pyo3 raises an exception that is no `Exception`."""

from pathlib import Path

REASON = "no entry found for key"


def damage_tokenizer(directory: Path) -> None:
    """Change a letter of tokenizer.json: it is read, and panics when it encodes a text."""
    file = directory / "tokenizer.json"
    text = file.read_text(encoding="utf-8")
    assert '"[CLS]": {' in text
    file.write_text(text.replace('"[CLS]": {', '"[GLS]": {', 1), encoding="utf-8")


def panic() -> None:
    """Let the library panic."""
    from tokenizers import Tokenizer, models, processors

    tokenizer = Tokenizer(models.WordLevel({"a": 0}, "a"))
    tokenizer.post_processor = processors.TemplateProcessing("$A x", special_tokens=[("x", 0)])
    text = tokenizer.to_str().replace('"x":{', '"y":{')
    Tokenizer.from_str(text).encode("a")
