"""Reads form fields and notes, which PDFium leaves out of the text of a page."""

import ctypes

import pypdfium2.raw as raw

from text_lines import Line

LONGEST_NOTE = 100_000
# PDFium's subtypes of text notes, highlights, underlines, squiggles and strikeouts.
NOTES = (1, 9, 10, 11, 12)


def add_annotations(form, page, lines):
    """Inserts form fields after the line to their left, and notes at the end of the page."""
    size = lines[-1].size if lines else 10
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if raw.FPDFAnnot_GetFlags(annotation) & raw.FPDF_ANNOT_FLAG_HIDDEN:
            pass
        elif kind == raw.FPDF_ANNOT_WIDGET and form:
            rect = raw.FS_RECTF()
            raw.FPDFAnnot_GetRect(annotation, rect)
            text = filled_in(form, annotation)
            if text:
                insert_field(lines, text, rect, size)
        elif kind == raw.FPDF_ANNOT_FREETEXT or kind in NOTES:
            text = wide_text(lambda buffer, size: raw.FPDFAnnot_GetStringValue(annotation, b"Contents", buffer, size))
            if text:
                shown = f"Note: {text}" if kind in NOTES else text
                lines.append(Line(shown, baseline=-100 * (index + 1), size=size))
        raw.FPDFPage_CloseAnnot(annotation)


def insert_field(lines, text, rect, size):
    beside = [at for at, line in enumerate(lines) if rect.bottom <= line.baseline <= rect.top and line.left < rect.left]
    above = [at for at, line in enumerate(lines) if line.baseline > rect.top]
    at = max(beside or above, default=-1) + 1
    baseline = lines[at - 1].baseline if beside else (rect.bottom + rect.top) / 2
    lines.insert(at, Line(text, rect.left, rect.right, baseline, size))


def filled_in(form, annotation):
    """The text of a form field, except passwords."""
    if raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & raw.FPDF_FORMFLAG_TEXT_PASSWORD:
        return ""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return "[x]" if raw.FPDFAnnot_IsChecked(form, annotation) else "[ ]"
    if kind in (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        labels = ", ".join(chosen(form, annotation))
        # A text that is none of the options may be typed into a combo box.
        if labels:
            return labels
    if kind in (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        return wide_text(lambda buffer, size: raw.FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size))
    return ""


def chosen(form, annotation):
    """The chosen options as they are displayed; the field's value is what they are exported as."""
    for option in range(raw.FPDFAnnot_GetOptionCount(form, annotation)):
        if raw.FPDFAnnot_IsOptionSelected(form, annotation, option):
            yield wide_text(lambda buffer, size: raw.FPDFAnnot_GetOptionLabel(form, annotation, option, buffer, size))


def wide_text(read):
    """Calls a PDFium function that fills a buffer with UTF-16 text."""
    # With a buffer that is too short, PDFium only returns the length.
    length = read(None, 0)
    buffer = ctypes.create_string_buffer(length)
    read(ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), length)
    text = buffer.raw.decode("utf-16-le", "replace").rstrip("\0").strip()
    return text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]} […]"
