"""Reads one PDF with PDFium and prints its text lines with their places, one JSON object a line.

Usage: python3 -I pdf_child.py TOOLS_DIR FILE MAX_PAGES MAX_ADDRESS_SPACE_BYTES

It has a process of its own because PDFium is native code and files are hostile: the parent may kill it at any time.
Output, in this order:
  {"ready": true}                           everything is loaded: what fails from here on is the file's fault
  {"pageCount": n, "title": text}
  {"lines": [[text, left, right, baseline, size, bold, gap], ...], "images": n}   for each page
or {"error": code, "detail": text} and nothing more.
Places are in points, up is more; size 0 is text that runs across the page's direction. `gap` is the widest empty space inside the line: a table row has a wide one.
`images` is counted only for a page without text: that is how a scan is told from an empty page.
"""

import ctypes
import json
import math
import resource
import sys

# The densest real page has hundreds; the parent handles a page in one go.
MOST_LINES_OF_A_PAGE = 20_000


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def limit_process(address_space_bytes):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Nothing may be written but to the pipe.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # macOS refuses an address space limit; there the parent's watch over the memory is the only one.
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes, address_space_bytes))


def font_size(raw, textpage, index, rotation):
    """The size as seen (many writers set size 1 and scale it with the text matrix); 0 for text that runs upwards."""
    matrix = raw.FS_MATRIX()
    if not raw.FPDFText_GetMatrix(textpage, index, matrix):
        return raw.FPDFText_GetFontSize(textpage, index)
    if (abs(matrix.b) > abs(matrix.a)) != (rotation in (90, 270)):
        return 0
    return raw.FPDFText_GetFontSize(textpage, index) * math.hypot(matrix.c, matrix.d)


def as_seen(x, y, rotation):
    """A place on the page as it is shown; the origin is left where it falls, only distances matter."""
    return {90: (y, -x), 180: (-x, -y), 270: (-y, x)}.get(rotation, (x, y))


def is_bold(raw, textpage, index):
    name = ctypes.create_string_buffer(128)
    raw.FPDFText_GetFontInfo(textpage, index, name, len(name), ctypes.c_int())
    return any(weight in name.value.lower() for weight in (b"bold", b"black", b"heavy"))


def runs(raw, textpage, start, count, rotation):
    """The left and right ends of the pieces that the line is drawn in."""
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    for index in range(raw.FPDFText_CountRects(textpage, start, count)):
        if raw.FPDFText_GetRect(textpage, index, left, top, right, bottom):
            corners = as_seen(left.value, bottom.value, rotation), as_seen(right.value, top.value, rotation)
            yield min(corner[0] for corner in corners), max(corner[0] for corner in corners)


def describe_line(raw, textpage, text, start, rotation):
    stripped = text.strip()
    start += len(text) - len(text.lstrip())
    first = raw.FPDFText_GetCharIndexFromTextIndex(textpage, start)
    last = raw.FPDFText_GetCharIndexFromTextIndex(textpage, start + len(stripped) - 1)
    ends = list(runs(raw, textpage, first, last - first + 1, rotation)) if 0 <= first <= last else []
    if not ends:
        return [stripped, 0, 0, 0, 0, False, 0]
    x, y = ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharOrigin(textpage, first, x, y)
    baseline = as_seen(x.value, y.value, rotation)[1]
    gap = max((after[0] - before[1] for before, after in zip(ends, ends[1:])), default=0)
    # The first character may be a raised number or a drop cap; one in the middle is like most.
    middle = start + next(at for at in range(len(stripped) // 2, len(stripped)) if not stripped[at].isspace())
    size = font_size(raw, textpage, raw.FPDFText_GetCharIndexFromTextIndex(textpage, middle), rotation)
    bold = is_bold(raw, textpage, first) and is_bold(raw, textpage, last)
    return [stripped, *(round(value, 1) for value in (ends[0][0], ends[-1][1], baseline, size)), bold, round(gap, 1)]


def read_page(raw, page):
    textpage = page.get_textpage()
    rotation = page.get_rotation()
    lines, start = [], 0
    for text in textpage.get_text_range(errors="replace").split("\n"):
        if text.strip():
            lines.append(describe_line(raw, textpage.raw, text, start, rotation))
        start += len(text) + 1
    textpage.close()
    images = 0
    if not lines:
        images = sum(1 for _ in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3))
    return {"lines": lines, "images": images}


def read_document(pypdfium2, raw, path, max_pages):
    try:
        document = pypdfium2.PdfDocument(path)
        page_count = len(document)
    except pypdfium2.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            return say({"error": "encrypted_document", "detail": "The PDF opens only with a password."})
        return say({"error": "corrupt_document", "detail": "The PDF cannot be opened: it is damaged or cut off."})
    if page_count == 0:
        return say({"error": "corrupt_document", "detail": "The PDF has no readable page."})
    if page_count > max_pages:
        return say({"error": "too_large", "detail": f"The PDF has {page_count} pages; at most {max_pages} are read."})
    say({"pageCount": page_count, "title": document.get_metadata_value("Title")})
    for index in range(page_count):
        try:
            page = document[index]
            message = read_page(raw, page)
        except pypdfium2.PdfiumError:
            return say({"error": "corrupt_document", "detail": f"Page {index + 1} of the PDF cannot be read."})
        if len(message["lines"]) > MOST_LINES_OF_A_PAGE:
            return say({"error": "too_large", "detail": f"Page {index + 1} of the PDF holds too many lines."})
        page.close()
        say(message)


def main(tools_dir, path, max_pages, address_space_bytes):
    sys.path.insert(0, tools_dir)
    import pypdfium2
    import pypdfium2.raw as raw

    limit_process(int(address_space_bytes))
    say({"ready": True})
    read_document(pypdfium2, raw, path, int(max_pages))


main(*sys.argv[1:])
