"""Reads PDFs with PDFium: their text lines with their positions, or images of pages.

Usage: python3 -I -B main.py TOOLS_DIR MAX_DATA_BYTES text
       python3 -I -B main.py TOOLS_DIR MAX_DATA_BYTES images FILE PAGE,PAGE,... PAGE,PAGE,...

PDFium is native code and files are untrusted, so the parent may kill this process at any time.
The mode `text` reads requests {"path": text, "maxPages": n, "hasEnd": bool} as lines of JSON from stdin, one
file after the other. A file without an end mark is read if no object is missing that another one refers to. For
each file it prints one JSON object per line, in this order:
  {"ready": true}                           the modules are loaded: later failures are the file's fault
  {"pageCount": n, "title": text}
  {"lines": [[text, left, right, baseline, size, bold, gap, mono], ...], "isPicture": bool, "unmapped": share}
                                for each page
  {"done": true}
or {"error": code, "detail": text} and nothing more.
`text_lines.Line` describes the values of a line.
`isPicture`: the page shows something, but almost no text can be extracted.
`unmapped`: the share of characters whose font has no map to Unicode; a code stands for each of them.
The mode `images` prints pages (counted from 0) as consecutive binary PGM images; a page that cannot
be drawn has no pixels. The pages that are also in the second list are drawn without their text.
"""

import json
import os
import resource
import sys

# The option -I leaves out the folder of this script.
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), sys.argv[1]]

import pypdfium2
import pypdfium2.raw as raw

from annotations import add_annotations
from document import Document, is_complete
from page_images import draw_page, is_picture
from text_lines import read_lines, share_without_map

# The densest real pages have hundreds of lines; the parent processes a page at once.
MOST_LINES_OF_A_PAGE = 20_000


def send_message(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def refuse(code, detail):
    send_message({"error": code, "detail": detail})
    sys.exit()


def limit_process(data_bytes):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # No files may be written.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # RLIMIT_DATA counts mapped memory only on Linux; elsewhere the parent's memory check is the only limit.
    # PDFium can take a gigabyte within a second, and aborts without a message when it gets no more.
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))


def read_document(path, max_pages, has_end):
    if not has_end and not is_complete(path):
        refuse("corrupt_document", "The PDF has no end mark (%%EOF): it was cut off.")
    try:
        document = Document(path)
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
    form = read_xfa_form(document)
    for index in range(page_count):
        try:
            message = read_page(document, index)
        except pypdfium2.PdfiumError:
            refuse("corrupt_document", f"Page {index + 1} of the PDF cannot be read.")
        if form and index == 0:
            message = {"lines": form, "isPicture": False, "unmapped": 0}
        if len(message["lines"]) > MOST_LINES_OF_A_PAGE:
            refuse("too_large", f"Page {index + 1} of the PDF holds too many lines.")
        send_message(message)
    document.file.close()


def read_xfa_form(document):
    if raw.FPDF_GetFormType(document.file) != raw.FORMTYPE_XFA_FULL:
        return []
    # Loads the XML parser only for the few files that need it.
    from xfa_forms import xfa_lines

    return xfa_lines(document.file)


def read_page(document, index):
    page = document.page(index)
    textpage = page.get_textpage()
    lines = read_lines(page, textpage)
    unmapped = share_without_map(textpage)
    textpage.close()
    picture = is_picture(page, sum(len(line.text) for line in lines))
    add_annotations(document.file.formenv, page, lines)
    page.close()
    return {"lines": lines, "isPicture": picture, "unmapped": unmapped}


def draw_pages(path, pages, pages_without_text):
    document = Document(path)
    for index in pages:
        sys.stdout.buffer.write(draw_page(document, index, index not in pages_without_text))
        sys.stdout.buffer.flush()


def numbers(text):
    return [int(number) for number in text.split(",") if number]


def main(_tools_dir, data_bytes, what, path=None, pages="", pages_without_text=""):
    limit_process(int(data_bytes))
    if what == "images":
        return draw_pages(path, numbers(pages), numbers(pages_without_text))
    for line in sys.stdin:
        request = json.loads(line)
        send_message({"ready": True})
        read_document(request["path"], request["maxPages"], request["hasEnd"])
        send_message({"done": True})


main(*sys.argv[1:])
