"""Reads what was filled into an XFA form: its captions and values, in the order of the form.

The pages of a dynamic XFA form only ask for another program. Its form is in two packets: the template, and the
data that was filled in. Scripts do not run; what they would compute is missing, as are numbers of pages.
"""

import ctypes
from xml.etree import ElementTree

import pypdfium2.raw as raw

from text_lines import Line

TEXT_VALUES = ("text", "integer", "decimal", "float", "date", "time", "dateTime", "exData")
# Their contents are secret, a picture, a label for a click, or a drawing.
SKIPPED_WIDGETS = ("passwordEdit", "imageEdit", "button", "signature", "barcode")


def xfa_lines(file):
    """The lines of a form in XFA; none if one of its packets is missing or damaged."""
    packets = dict(xfa_packets(file))
    try:
        texts = read_xfa(packets[b"template"], packets.get(b"datasets"))
    except (KeyError, ElementTree.ParseError):
        return []
    # As rows of a table, each of which is a line of its own.
    return [Line(text, baseline=-20 * at, size=10, gap=100) for at, text in enumerate(texts)]


def xfa_packets(file):
    name, length = ctypes.create_string_buffer(64), ctypes.c_ulong()
    for index in range(raw.FPDF_GetXFAPacketCount(file)):
        raw.FPDF_GetXFAPacketName(file, index, name, len(name))
        raw.FPDF_GetXFAPacketContent(file, index, None, 0, length)
        content = ctypes.create_string_buffer(length.value)
        raw.FPDF_GetXFAPacketContent(file, index, content, length, length)
        yield name.value, content.raw


def read_xfa(template, datasets):
    """The texts of a form. Raises ElementTree.ParseError if one of the packets is damaged."""
    root = ElementTree.fromstring(template)
    data = child(ElementTree.fromstring(datasets), "data") if datasets else None
    form = Form(data)
    form.add_container(root, [data] if data is not None else [])
    return form.lines


def name_of(element):
    return element.tag.rpartition("}")[2]


def child(element, *path):
    for wanted in path:
        element = next((each for each in element if name_of(each) == wanted), None)
        if element is None:
            return None
    return element


def text_of(element):
    if element is None:
        return ""
    paragraphs = [each for each in element.iter() if name_of(each) == "p"] or [element]
    return " ".join(" ".join("".join(each.itertext()).split()) for each in paragraphs).strip()


def value_of(element):
    """The text in the `value` of a field, a caption or a drawing."""
    value = child(element, "value")
    return " ".join(text_of(each) for each in value if name_of(each) in TEXT_VALUES) if value is not None else ""


class Form:
    def __init__(self, data):
        self.lines = []
        self.read = set()
        self.leaves = {}
        for each in data.iter() if data is not None else []:
            if len(each) == 0:
                self.leaves.setdefault(name_of(each), []).append(each)

    def add_container(self, container, scopes):
        for each in container:
            kind = name_of(each)
            if each.get("presence") in ("hidden", "inactive") and kind != "subform":
                continue
            if kind in ("subform", "subformSet", "area", "pageSet", "pageArea"):
                for inner in self.scopes_of(each, scopes):
                    self.add_container(each, inner)
            elif kind == "draw":
                self.add_line(value_of(each))
            elif kind == "exclGroup":
                self.add_choices(each, scopes)
            elif kind == "field":
                self.add_field(each, scopes)

    def scopes_of(self, subform, scopes):
        """A subform is repeated for each part of the data with its name."""
        parts = [each for each in scopes[-1] if name_of(each) == subform.get("name")] if scopes else []
        if parts:
            return [[*scopes, part] for part in parts]
        # Scripts show hidden subforms when they are filled in.
        return [] if subform.get("presence") in ("hidden", "inactive") else [scopes]

    def find(self, element, scopes):
        """The data of a field: where its binding or its name says, or the next of this name that no field has."""
        reference = child(element, "bind")
        path = reference.get("ref", "") if reference is not None else ""
        name = path.rpartition(".")[2].partition("[")[0] or element.get("name")
        near = [each for scope in reversed(scopes) for each in scope if name_of(each) == name]
        for each in [*near, *self.leaves.get(name, [])]:
            if id(each) not in self.read:
                self.read.add(id(each))
                return each
        return None

    def add_field(self, field, scopes):
        widget = next((name_of(each) for each in child(field, "ui") or []), "")
        if widget in SKIPPED_WIDGETS:
            return
        found = self.find(field, scopes)
        value = value_of(field) if found is None else text_of(found)
        items = [[text_of(item) for item in each] for each in field if name_of(each) == "items"]
        if widget == "checkButton":
            value = "[x]" if value and value == (items[0][0] if items and items[0] else "1") else "[ ]"
        elif len(items) > 1:
            # One list has the texts that are shown, and the other those that are saved.
            lists = [each for each in field if name_of(each) == "items"]
            saved, shown = items if lists[0].get("save") == "1" else reversed(items)
            values = [text_of(each) for each in found] if found is not None and len(found) else [value]
            value = ", ".join(dict(zip(saved, shown)).get(each, each) for each in values)
        self.add_line(f"{value_of(child(field, 'caption') or [])} {value}")

    def add_choices(self, group, scopes):
        found = self.find(group, scopes)
        for field in group:
            if name_of(field) != "field":
                continue
            items = child(field, "items")
            value = text_of(items[0]) if items is not None and len(items) else ""
            mark = "[x]" if found is not None and value and text_of(found) == value else "[ ]"
            self.add_line(f"{mark} {value_of(child(field, 'caption') or [])}")

    def add_line(self, text):
        if text.strip():
            self.lines.append(text.strip())
