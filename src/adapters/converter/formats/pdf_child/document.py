"""Opens PDFs, also damaged ones, and keeps PDFium's memory small."""

import os
import re
import resource

import pypdfium2
import pypdfium2.raw as raw

# Larger files are not repaired.
MOST_REPAIRED_BYTES = 64 * 1024**2

# PDFium may take so much for a file before the file is opened again.
MOST_GROWTH_BYTES = 24 * 1024**2


class Document:
    """A PDF that is reopened when its memory has grown: PDFium caches every object until the file is closed."""

    def __init__(self, path):
        self.open_file = lambda: pypdfium2.PdfDocument(path)
        try:
            self.open()
        except pypdfium2.PdfiumError as error:
            small = os.path.getsize(path) <= MOST_REPAIRED_BYTES
            repaired = with_trailer(path) if error.err_code == raw.FPDF_ERR_FORMAT and small else None
            if repaired is None:
                raise
            self.open_file = lambda: pypdfium2.PdfDocument(repaired)
            self.open()

    def open(self):
        self.file = self.open_file()
        self.file.init_forms()
        self.opened_with = resident_bytes()

    def page(self, index):
        if resident_bytes() > self.opened_with + MOST_GROWTH_BYTES:
            self.file.close()
            self.open()
        return self.file[index]


# The lookbehind begins a match only at the first digit: a run of digits, such as the space for a signature, would
# take quadratic time otherwise.
REFERENCE = re.compile(rb"(?<!\d)(\d+)\s+\d+\s+R\b")
OBJECT = re.compile(rb"(?<!\d)(\d+)\s+(\d+)\s+obj\b")


def objects_of(path):
    """The objects of a damaged file without their streams, and what follows the last one."""
    with open(path, "rb") as file:
        *objects, rest = file.read(MOST_REPAIRED_BYTES).split(b"endobj")
    return [each.partition(b"stream")[0] for each in objects], rest


def is_complete(path):
    objects, rest = objects_of(path)
    text = b"\n".join(objects)
    missing = set(REFERENCE.findall(text)) - {number for number, _ in OBJECT.findall(text)}
    # Objects in streams of objects are not looked into.
    return not missing and b"/ObjStm" not in text and not re.search(rb"\d\s+obj\b", rest)


def with_trailer(path):
    """A file that has lost its end, with a trailer that tells PDFium which of its objects is the first."""
    for each in objects_of(path)[0]:
        if re.search(rb"/Type\s*/Catalog\b", each):
            root = OBJECT.findall(each)[-1]
            with open(path, "rb") as file:
                return file.read() + b"\ntrailer\n<< /Root %b %b R >>\n%%%%EOF\n" % root
    return None


def resident_bytes():
    """Returns 0 without /proc (macOS), where only the parent checks the memory."""
    try:
        with open("/proc/self/statm") as memory:
            return int(memory.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0
