"""What all makers of files share: where files go, and what is known about each."""

import io
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

SET = Path(__file__).resolve().parent.parent / "set"


@dataclass
class Made:
    name: str
    what: str
    languages: str
    text: str
    absent: list[str] = field(default_factory=list)


made: list[Made] = []


def add(name, content, what, text, languages="en", absent=()):
    """Writes a file of the set with the text that a reader sees in it; `absent` are words that no reader sees."""
    (SET / name).write_bytes(content.encode() if isinstance(content, str) else content)
    lines = [line.strip() for line in text.strip().splitlines()]
    made.append(Made(name, what, languages, "\n".join(line for line in lines if line), list(absent)))


def saved(document):
    """The bytes of a document whose library writes to a stream."""
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def zipped(parts, stored=()):
    """A ZIP archive whose bytes do not depend on the time."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in parts.items():
            info = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return out.getvalue()


def edited(package, changes):
    """An Office package with some parts replaced: by a text, or by what a function makes of the old one."""
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name, change in changes.items():
        parts[name] = change(parts[name].decode()) if callable(change) else change
    return zipped(parts)


def table_text(rows):
    return "\n".join(" ".join(str(cell) for cell in row if cell != "") for row in rows)


def write_manifest():
    """One text file that differences of two versions can be read in."""
    parts = []
    for each in sorted(made, key=lambda each: each.name):
        absent = f"\nabsent: {', '.join(each.absent)}" if each.absent else ""
        parts.append(f"=== {each.name}\nwhat: {each.what}\nlanguages: {each.languages}{absent}\n--- text\n{each.text}\n")
    (SET / "expected.txt").write_text("\n".join(parts))
