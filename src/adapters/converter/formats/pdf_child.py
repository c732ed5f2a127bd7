"""Reads PDFs with PDFium: their text lines with their positions, or images of pages.

Usage: python3 -I pdf_child.py TOOLS_DIR MAX_DATA_BYTES text
       python3 -I pdf_child.py TOOLS_DIR MAX_DATA_BYTES images FILE PAGE,PAGE,... PAGE,PAGE,...

PDFium is native code and files are untrusted, so the parent may kill this process at any time.
The mode `text` reads requests {"path": text, "maxPages": n, "hasEnd": bool} as lines of JSON from stdin, one
file after the other. A file without an end mark is read if no object is missing that another one refers to. For each file it prints one JSON object per line, in this order:
  {"ready": true}                           the modules are loaded: later failures are the file's fault
  {"pageCount": n, "title": text}
  {"lines": [[text, left, right, baseline, size, bold, gap, mono], ...], "isPicture": bool, "unmapped": share}
                                for each page
  {"done": true}
or {"error": code, "detail": text} and nothing more.
Positions are in points, upwards; size 0 marks text perpendicular to the page. `gap` is the widest
empty space inside the line. `mono`: its font is monospaced; it has the spaces of its columns.
`isPicture`: the page shows something, but almost no text can be extracted.
`unmapped`: the share of characters whose font has no map to Unicode; a code stands for each of them.
The mode `images` prints pages (counted from 0) as consecutive binary PGM images; a page that cannot
be drawn has no pixels. The pages that are also in the second list are drawn without their text.
"""

import ctypes
import json
import math
import os
import re
import resource
import sys

# The densest real pages have hundreds of lines; the parent processes a page at once.
MOST_LINES_OF_A_PAGE = 20_000
# A scanned page may have this much text: a stamp, a page number or a file number.
LETTERS_OF_A_STAMP = 60
# In points.
MOST_OVERHANG = 60
# Fewer strokes are a frame or a rule; text converted to outlines has many.
STROKES_OF_A_DRAWING = 50

# So many characters of each page are asked for their map to Unicode, and more if some of them have none.
SAMPLED_CHARACTERS = 30
COUNTED_CHARACTERS = 1_000

# The flag of monospaced fonts, and parts of the names of such fonts.
FIXED_PITCH = 1
MONOSPACED = (b"mono", b"courier", b"consola", b"menlo", b"typewriter", b"cmtt", b"sourcecode", b"fixed")
# The columns of most of them are 0.5 to 0.62 font sizes wide.
WIDEST_COLUMN = 0.66
MOST_COLUMNS = 200

# Larger files are not repaired.
MOST_REPAIRED_BYTES = 64 * 1024**2

MOST_GROWTH_BYTES = 24 * 1024**2

LONGEST_NOTE = 100_000
# PDFium's subtypes of text notes, highlights, underlines, squiggles and strikeouts.
NOTES = (1, 9, 10, 11, 12)

DOTS_PER_POINT = 300 / 72
# About A3 at 300 dpi; larger pages, such as posters, are drawn at a lower resolution.
MOST_PIXELS = 16_000_000


def send_message(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def limit_process(data_bytes):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # No files may be written.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # RLIMIT_DATA counts mapped memory only on Linux; elsewhere the parent's memory check is the only limit.
    # PDFium can take a gigabyte within a second, and aborts without a message when it gets no more.
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))


def resident_bytes():
    """Returns 0 without /proc (macOS), where only the parent checks the memory."""
    try:
        with open("/proc/self/statm") as memory:
            return int(memory.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def objects_of(path):
    """The objects of a damaged file without their streams, and what follows the last one."""
    with open(path, "rb") as file:
        *objects, rest = file.read(MOST_REPAIRED_BYTES).split(b"endobj")
    return [each.partition(b"stream")[0] for each in objects], rest


def is_complete(path):
    objects, rest = objects_of(path)
    text = b"\n".join(objects)
    missing = set(re.findall(rb"(\d+)\s+\d+\s+R\b", text)) - set(re.findall(rb"(\d+)\s+\d+\s+obj\b", text))
    # Objects in streams of objects are not looked into.
    return not missing and b"/ObjStm" not in text and not re.search(rb"\d\s+obj\b", rest)


def with_trailer(path):
    """A file that has lost its end, with a trailer that tells PDFium which of its objects is the first."""
    for each in objects_of(path)[0]:
        if re.search(rb"/Type\s*/Catalog\b", each):
            number, generation = re.findall(rb"(\d+)\s+(\d+)\s+obj\b", each)[-1]
            with open(path, "rb") as file:
                return file.read() + b"\ntrailer\n<< /Root %b %b R >>\n%%%%EOF\n" % (number, generation)
    return None


class Document:
    """A PDF that is reopened when its memory has grown: PDFium caches every object until the file is closed."""

    def __init__(self, pypdfium2, raw, path):
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


def font_size(raw, textpage, index, rotation):
    """The displayed size (many writers set size 1 and scale by the text matrix); 0 for vertical text."""
    matrix = raw.FS_MATRIX()
    if not raw.FPDFText_GetMatrix(textpage, index, matrix):
        return raw.FPDFText_GetFontSize(textpage, index)
    if (abs(matrix.b) > abs(matrix.a)) != (rotation in (90, 270)):
        return 0
    return raw.FPDFText_GetFontSize(textpage, index) * math.hypot(matrix.c, matrix.d)


def as_seen(x, y, rotation):
    """A point on the rotated page. The origin moves, because only distances matter."""
    if rotation == 0:
        return x, y
    return {90: (y, -x), 180: (-x, -y), 270: (-y, x)}.get(rotation, (x, y))


def font_style(raw, textpage, index):
    """Whether a character is bold, and whether its font is monospaced."""
    name, flags = ctypes.create_string_buffer(128), ctypes.c_int()
    raw.FPDFText_GetFontInfo(textpage, index, name, len(name), flags)
    lower = name.value.lower()
    bold = any(weight in lower for weight in (b"bold", b"black", b"heavy"))
    return bold, bool(flags.value & FIXED_PITCH) or any(word in lower for word in MONOSPACED)


def in_columns(raw, textpage, text, start):
    """A line in a monospaced font with the spaces that its columns have. PDFium writes one space for any gap."""
    x, y = ctypes.c_double(), ctypes.c_double()
    places = []
    for at, character in enumerate(text):
        if not character.isspace():
            raw.FPDFText_GetCharOrigin(textpage, raw.FPDFText_GetCharIndexFromTextIndex(textpage, start + at), x, y)
            places.append((at, x.value, character))
    steps = [after[1] - before[1] for before, after in zip(places, places[1:]) if after[0] == before[0] + 1]
    width = sorted(steps)[len(steps) // 2] if steps else 0
    if width <= 0:
        return text
    line, end = "", -1
    for at, left, character in places:
        if at > end + 1:
            column = round((left - places[0][1]) / width)
            line += " " * min(MOST_COLUMNS, max(1, column - len(line)))
        line += character
        end = at
    return line


def runs(raw, textpage, start, count, rotation):
    """The left and right ends of the rectangles that a line is drawn in."""
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    for index in range(raw.FPDFText_CountRects(textpage, start, count)):
        if raw.FPDFText_GetRect(textpage, index, left, top, right, bottom):
            x1, x2 = left.value, right.value
            if rotation:
                x1, x2 = as_seen(x1, bottom.value, rotation)[0], as_seen(x2, top.value, rotation)[0]
            yield (x1, x2) if x1 < x2 else (x2, x1)


def visible_box(page, rotation):
    left, bottom, right, top = page.get_bbox()
    (x1, y1), (x2, y2) = as_seen(left, bottom, rotation), as_seen(right, top, rotation)
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def is_clipped(raw, textpage, index):
    """True if the clipping path of the text that a character belongs to hides all of it."""
    text = raw.FPDFText_GetTextObject(textpage, index)
    clip = raw.FPDFPageObj_GetClipPath(text)
    paths = raw.FPDFClipPath_CountPaths(clip)
    if paths <= 0:
        return False
    box = [ctypes.c_float() for _ in range(4)]
    if not raw.FPDFPageObj_GetBounds(text, *box):
        return False
    left, bottom, right, top = (side.value for side in box)
    x, y = ctypes.c_float(), ctypes.c_float()
    for path in range(paths):
        points = []
        for at in range(raw.FPDFClipPath_CountPathSegments(clip, path)):
            raw.FPDFPathSegment_GetPoint(raw.FPDFClipPath_GetPathSegment(clip, path, at), x, y)
            points.append((x.value, y.value))
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        if points and (left > max(xs) or right < min(xs) or bottom > max(ys) or top < min(ys)):
            return True
    return False


def visible_part(raw, textpage, text, start, rotation, box):
    """The characters of a line whose middle is on the page, with the line's start; the rest is replaced by spaces."""
    left, bottom, right, top = (ctypes.c_double() for _ in range(4))
    shown = []
    for at, character in enumerate(text):
        index = raw.FPDFText_GetCharIndexFromTextIndex(textpage, start + at)
        if raw.FPDFText_GetCharBox(textpage, index, left, right, bottom, top):
            x, y = as_seen((left.value + right.value) / 2, (bottom.value + top.value) / 2, rotation)
            if not (box[0] <= x <= box[2] and box[1] <= y <= box[3]):
                character = " "
        shown.append(character)
    return "".join(shown)


def describe_line(raw, textpage, text, start, rotation, box):
    """Returns None for a line that is outside of the page or clipped."""
    stripped = text.strip()
    start += len(text) - len(text.lstrip())
    first = raw.FPDFText_GetCharIndexFromTextIndex(textpage, start)
    last = raw.FPDFText_GetCharIndexFromTextIndex(textpage, start + len(stripped) - 1)
    ends = list(runs(raw, textpage, first, last - first + 1, rotation)) if 0 <= first <= last else []
    if not ends:
        return [stripped, 0, 0, 0, 0, False, 0, False]
    x, y = ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharOrigin(textpage, first, x, y)
    baseline = as_seen(x.value, y.value, rotation)[1]
    gap = max((after[0] - before[1] for before, after in zip(ends, ends[1:])), default=0)
    # The size of a middle character is typical: the first may be a superscript or a drop cap.
    middle = start + next(at for at in range(len(stripped) // 2, len(stripped)) if not stripped[at].isspace())
    size = font_size(raw, textpage, raw.FPDFText_GetCharIndexFromTextIndex(textpage, middle), rotation)
    left, right = ends[0][0], ends[-1][1]
    # Lines may end a little beside the page, for readers to guess the rest; others are cut at its edge.
    if min(left, right) < box[0] - MOST_OVERHANG or max(left, right) > box[2] + MOST_OVERHANG:
        stripped = visible_part(raw, textpage, stripped, start, rotation, box).strip()
        left, right = max(left, box[0]), min(right, box[2])
    is_below = baseline > box[3] or baseline + size < box[1]
    if not stripped or is_below or is_clipped(raw, textpage, first) and is_clipped(raw, textpage, last):
        return None
    bold, mono = font_style(raw, textpage, first)
    if bold or mono:
        is_last_bold, is_last_mono = font_style(raw, textpage, last)
        bold, mono = bold and is_last_bold, mono and is_last_mono
    if mono and not rotation and (gap > size / 2 or right - left > WIDEST_COLUMN * size * len(stripped)):
        stripped = in_columns(raw, textpage, stripped, start)
    return [stripped, *(round(value, 1) for value in (left, right, baseline, size)), bold, round(gap, 1), mono]


def wide_text(read):
    """Calls a PDFium function that fills a buffer with UTF-16 text."""
    # With a buffer that is too short, PDFium only returns the length.
    length = read(None, 0)
    buffer = ctypes.create_string_buffer(length)
    read(ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), length)
    text = buffer.raw.decode("utf-16-le", "replace").rstrip("\0").strip()
    return text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]} […]"


def chosen(raw, form, annotation):
    """The chosen options as they are displayed; the field's value is what they are exported as."""
    for option in range(raw.FPDFAnnot_GetOptionCount(form, annotation)):
        if raw.FPDFAnnot_IsOptionSelected(form, annotation, option):
            yield wide_text(
                lambda buffer, size: raw.FPDFAnnot_GetOptionLabel(form, annotation, option, buffer, size)
            )


def filled_in(raw, form, annotation):
    """The text of a form field, except passwords."""
    if raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & raw.FPDF_FORMFLAG_TEXT_PASSWORD:
        return ""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return "[x]" if raw.FPDFAnnot_IsChecked(form, annotation) else "[ ]"
    if kind in (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        labels = ", ".join(chosen(raw, form, annotation))
        # A text that is none of the options may be typed into a combo box.
        if labels:
            return labels
    if kind in (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        return wide_text(lambda buffer, size: raw.FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size))
    return ""


def add_annotations(raw, document, page, lines):
    """Inserts form fields after the line to their left, and notes at the end of the page."""
    size = lines[-1][4] if lines else 10
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if raw.FPDFAnnot_GetFlags(annotation) & raw.FPDF_ANNOT_FLAG_HIDDEN:
            pass
        elif kind == raw.FPDF_ANNOT_WIDGET and document.file.formenv:
            rect = raw.FS_RECTF()
            raw.FPDFAnnot_GetRect(annotation, rect)
            text = filled_in(raw, document.file.formenv, annotation)
            if text:
                insert_field(lines, text, rect, size)
        elif kind == raw.FPDF_ANNOT_FREETEXT or kind in NOTES:
            text = wide_text(lambda buffer, size: raw.FPDFAnnot_GetStringValue(annotation, b"Contents", buffer, size))
            if text:
                lines.append([f"Note: {text}" if kind in NOTES else text, 0, 0, -100 * (index + 1), size, False, 0, False])
        raw.FPDFPage_CloseAnnot(annotation)


def xfa_packets(raw, file):
    name, length = ctypes.create_string_buffer(64), ctypes.c_ulong()
    for index in range(raw.FPDF_GetXFAPacketCount(file)):
        raw.FPDF_GetXFAPacketName(file, index, name, len(name))
        raw.FPDF_GetXFAPacketContent(file, index, None, 0, length)
        content = ctypes.create_string_buffer(length.value)
        raw.FPDF_GetXFAPacketContent(file, index, content, length, length)
        yield name.value, content.raw


def xfa_lines(raw, file):
    """The lines of a form in XFA, whose pages only ask for another program; none for other files."""
    if raw.FPDF_GetFormType(file) != raw.FORMTYPE_XFA_FULL:
        return []
    import runpy

    # An import would have to list the folder of this script, which the sandbox forbids.
    xfa = runpy.run_path(os.path.join(os.path.dirname(__file__), "pdf_xfa.py"))
    packets = dict(xfa_packets(raw, file))
    try:
        texts = xfa["read_xfa"](packets[b"template"], packets.get(b"datasets"))
    except (KeyError, xfa["ElementTree"].ParseError):
        return []
    # As rows of a table, each of which is a line of its own.
    return [[text, 0, 0, -20 * at, 10, False, 100, False] for at, text in enumerate(texts)]


def insert_field(lines, text, rect, size):
    beside = [at for at, line in enumerate(lines) if rect.bottom <= line[3] <= rect.top and line[1] < rect.left]
    above = [at for at, line in enumerate(lines) if line[3] > rect.top]
    at = max(beside or above, default=-1) + 1
    baseline = lines[at - 1][3] if beside else (rect.bottom + rect.top) / 2
    lines.insert(at, [text, rect.left, rect.right, baseline, size, False, 0, False])


def read_page(raw, page):
    textpage = page.get_textpage()
    rotation = page.get_rotation()
    box = visible_box(page, rotation)
    lines, start = [], 0
    for text in textpage.get_text_range(errors="replace").split("\n"):
        line = describe_line(raw, textpage.raw, text, start, rotation, box) if text.strip() else None
        if line:
            lines.append(line)
        start += len(text) + 1
    unmapped = share_without_map(raw, textpage.raw)
    textpage.close()
    picture = is_picture(raw, page, sum(len(line[0]) for line in lines))
    return {"lines": lines, "isPicture": picture, "unmapped": unmapped}


def share_without_map(raw, textpage):
    total, share = raw.FPDFText_CountChars(textpage), 0
    for most in (SAMPLED_CHARACTERS, COUNTED_CHARACTERS):
        sample = range(0, total, max(1, total // most))
        share = sum(raw.FPDFText_HasUnicodeMapError(textpage, at) == 1 for at in sample) / max(1, len(sample))
        if share < 0.1:
            break
    return round(share, 2)


def is_picture(raw, page, letters):
    if letters > LETTERS_OF_A_STAMP:
        return False
    covered, strokes = 0, 0
    for shown in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_PATH], max_depth=3):
        if shown.type == raw.FPDF_PAGEOBJ_PATH:
            strokes += 1
            continue
        if letters == 0:
            return True
        # Areas are added up, because scanners split a page into stripes.
        left, bottom, right, top = shown.get_bounds()
        covered += (right - left) * (top - bottom)
    width, height = page.get_size()
    return covered > width * height / 2 or (letters == 0 and strokes >= STROKES_OF_A_DRAWING)


def draw_page(pypdfium2, raw, document, index, with_text):
    try:
        page = document.page(index)
        for text in [] if with_text else page.get_objects(filter=[raw.FPDF_PAGEOBJ_TEXT]):
            raw.FPDFTextObj_SetTextRenderMode(text.raw, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
        width, height = page.get_size()
        scale = min(DOTS_PER_POINT, math.sqrt(MOST_PIXELS / (width * height)))
        bitmap = page.render(scale=scale, grayscale=True)
        page.close()
    except (pypdfium2.PdfiumError, ZeroDivisionError):
        return b"P5\n0 0\n255\n"
    rows = bytes(bitmap.buffer)
    if bitmap.stride != bitmap.width:
        rows = b"".join(rows[at * bitmap.stride :][: bitmap.width] for at in range(bitmap.height))
    bitmap.close()
    return b"P5\n%d %d\n255\n" % (bitmap.width, bitmap.height) + rows


def draw_pages(pypdfium2, raw, path, pages, pages_without_text):
    document = Document(pypdfium2, raw, path)
    for index in pages:
        sys.stdout.buffer.write(draw_page(pypdfium2, raw, document, index, index not in pages_without_text))
        sys.stdout.buffer.flush()


def refuse(code, detail):
    send_message({"error": code, "detail": detail})
    sys.exit()


def read_document(pypdfium2, raw, path, max_pages, has_end):
    if not has_end and not is_complete(path):
        refuse("corrupt_document", "The PDF has no end mark (%%EOF): it was cut off.")
    try:
        document = Document(pypdfium2, raw, path)
        page_count = len(document.file)
    except pypdfium2.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            refuse("encrypted_document", "The PDF opens only with a password.")
        refuse("corrupt_document", "The PDF cannot be opened: it is damaged or cut off.")
    if page_count == 0:
        refuse("corrupt_document", "The PDF has no readable page.")
    if page_count > max_pages:
        refuse("too_large", f"The PDF has {page_count} pages; at most {max_pages} are read.")
    send_message({"pageCount": page_count, "title": document.file.get_metadata_value("Title")})
    form = xfa_lines(raw, document.file)
    for index in range(page_count):
        try:
            page = document.page(index)
            message = read_page(raw, page)
            add_annotations(raw, document, page, message["lines"])
            page.close()
            if form and index == 0:
                message = {"lines": form, "isPicture": False, "unmapped": 0}
        except pypdfium2.PdfiumError:
            refuse("corrupt_document", f"Page {index + 1} of the PDF cannot be read.")
        if len(message["lines"]) > MOST_LINES_OF_A_PAGE:
            refuse("too_large", f"Page {index + 1} of the PDF holds too many lines.")
        send_message(message)
    document.file.close()


def numbers(text):
    return [int(number) for number in text.split(",") if number]


def main(tools_dir, data_bytes, what, path=None, pages="", pages_without_text=""):
    sys.path.insert(0, tools_dir)
    import pypdfium2
    import pypdfium2.raw as raw

    limit_process(int(data_bytes))
    if what == "images":
        return draw_pages(pypdfium2, raw, path, numbers(pages), numbers(pages_without_text))
    for line in sys.stdin:
        request = json.loads(line)
        send_message({"ready": True})
        read_document(pypdfium2, raw, request["path"], request["maxPages"], request["hasEnd"])
        send_message({"done": True})


main(*sys.argv[1:])
