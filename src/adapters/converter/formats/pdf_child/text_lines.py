"""Reads the lines of text that a page shows, with their positions."""

import ctypes
import math
from typing import NamedTuple

import pypdfium2.raw as raw

# Lines may end so many points beside the page, for readers to guess the rest; longer ones are cut at its edge.
MOST_OVERHANG = 60

# The flag of monospaced fonts, and parts of the names of such fonts.
FIXED_PITCH = 1
MONOSPACED = (b"mono", b"courier", b"consola", b"menlo", b"typewriter", b"cmtt", b"sourcecode", b"fixed")
# The columns of most of them are 0.5 to 0.62 font sizes wide.
WIDEST_COLUMN = 0.66
MOST_COLUMNS = 200

# So many characters of each page are asked for their map to Unicode, and more if some of them have none.
SAMPLED_CHARACTERS = 30
COUNTED_CHARACTERS = 1_000


class Line(NamedTuple):
    """Positions are in points, upwards. The order of the fields is that of the messages to the parent."""

    text: str
    left: float = 0
    right: float = 0
    baseline: float = 0
    # 0 marks text perpendicular to the page.
    size: float = 0
    bold: bool = False
    # The widest empty space inside the line.
    gap: float = 0
    # The font is monospaced, and the text has the spaces of its columns.
    mono: bool = False


def read_lines(page, textpage):
    rotation = page.get_rotation()
    box = visible_box(page, rotation)
    lines, start = [], 0
    for text in textpage.get_text_range(errors="replace").split("\n"):
        line = describe_line(textpage.raw, text, start, rotation, box) if text.strip() else None
        if line:
            lines.append(line)
        start += len(text) + 1
    return lines


def share_without_map(textpage):
    """The share of a page's characters whose font has no map to Unicode."""
    total, share = raw.FPDFText_CountChars(textpage), 0
    for most in (SAMPLED_CHARACTERS, COUNTED_CHARACTERS):
        sample = range(0, total, max(1, total // most))
        share = sum(raw.FPDFText_HasUnicodeMapError(textpage, at) == 1 for at in sample) / max(1, len(sample))
        if share < 0.1:
            break
    return round(share, 2)


def describe_line(textpage, text, start, rotation, box):
    """Returns None for a line that is outside of the page or clipped."""
    stripped = text.strip()
    start += len(text) - len(text.lstrip())
    first = raw.FPDFText_GetCharIndexFromTextIndex(textpage, start)
    last = raw.FPDFText_GetCharIndexFromTextIndex(textpage, start + len(stripped) - 1)
    ends = list(extents(textpage, first, last - first + 1, rotation)) if 0 <= first <= last else []
    if not ends:
        return Line(stripped)
    x, y = ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharOrigin(textpage, first, x, y)
    baseline = as_seen(x.value, y.value, rotation)[1]
    gap = max((after[0] - before[1] for before, after in zip(ends, ends[1:])), default=0)
    # The size of a middle character is typical: the first may be a superscript or a drop cap.
    middle = start + next(at for at in range(len(stripped) // 2, len(stripped)) if not stripped[at].isspace())
    size = font_size(textpage, raw.FPDFText_GetCharIndexFromTextIndex(textpage, middle), rotation)
    left, right = ends[0][0], ends[-1][1]
    if min(left, right) < box[0] - MOST_OVERHANG or max(left, right) > box[2] + MOST_OVERHANG:
        stripped = visible_part(textpage, stripped, start, rotation, box).strip()
        left, right = max(left, box[0]), min(right, box[2])
    is_outside = baseline > box[3] or baseline + size < box[1]
    if not stripped or is_outside or (is_clipped(textpage, first) and is_clipped(textpage, last)):
        return None
    bold, mono = font_style(textpage, first)
    if bold or mono:
        is_last_bold, is_last_mono = font_style(textpage, last)
        bold, mono = bold and is_last_bold, mono and is_last_mono
    if mono and not rotation and (gap > size / 2 or right - left > WIDEST_COLUMN * size * len(stripped)):
        stripped = in_columns(textpage, stripped, start)
    position = (round(value, 1) for value in (left, right, baseline, size))
    return Line(stripped, *position, bold, round(gap, 1), mono)


def as_seen(x, y, rotation):
    """A point on the rotated page. The origin moves, because only distances matter."""
    if rotation == 0:
        return x, y
    return {90: (y, -x), 180: (-x, -y), 270: (-y, x)}.get(rotation, (x, y))


def visible_box(page, rotation):
    left, bottom, right, top = page.get_bbox()
    (x1, y1), (x2, y2) = as_seen(left, bottom, rotation), as_seen(right, top, rotation)
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def visible_part(textpage, text, start, rotation, box):
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


def is_clipped(textpage, index):
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


def extents(textpage, start, count, rotation):
    """The left and right ends of the rectangles that a line is drawn in."""
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    for index in range(raw.FPDFText_CountRects(textpage, start, count)):
        if raw.FPDFText_GetRect(textpage, index, left, top, right, bottom):
            x1, x2 = left.value, right.value
            if rotation:
                x1, x2 = as_seen(x1, bottom.value, rotation)[0], as_seen(x2, top.value, rotation)[0]
            yield (x1, x2) if x1 < x2 else (x2, x1)


def font_size(textpage, index, rotation):
    """The displayed size (many writers set size 1 and scale by the text matrix); 0 for vertical text."""
    matrix = raw.FS_MATRIX()
    if not raw.FPDFText_GetMatrix(textpage, index, matrix):
        return raw.FPDFText_GetFontSize(textpage, index)
    if (abs(matrix.b) > abs(matrix.a)) != (rotation in (90, 270)):
        return 0
    return raw.FPDFText_GetFontSize(textpage, index) * math.hypot(matrix.c, matrix.d)


def font_style(textpage, index):
    """Whether a character is bold, and whether its font is monospaced."""
    name, flags = ctypes.create_string_buffer(128), ctypes.c_int()
    raw.FPDFText_GetFontInfo(textpage, index, name, len(name), flags)
    lower = name.value.lower()
    bold = any(weight in lower for weight in (b"bold", b"black", b"heavy"))
    return bold, bool(flags.value & FIXED_PITCH) or any(word in lower for word in MONOSPACED)


def in_columns(textpage, text, start):
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
