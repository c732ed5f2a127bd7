"""Draws pages for OCR, and says which pages need it."""

import math

import pypdfium2
import pypdfium2.raw as raw

# A scanned page may have this much text: a stamp, a page number or a file number.
LETTERS_OF_A_STAMP = 60
# Fewer strokes are a frame or a rule; text converted to outlines has many.
STROKES_OF_A_DRAWING = 50

DOTS_PER_POINT = 300 / 72
# About A3 at 300 dpi; larger pages, such as posters, are drawn at a lower resolution.
MOST_PIXELS = 16_000_000


def is_picture(page, letters):
    """Whether a page with so many letters shows something else, such as a scan or text converted to outlines."""
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


def draw_page(document, index, with_text):
    """A page as a PGM image; without pixels if it cannot be drawn."""
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
