"""PDFs, of several writers."""

import io
import random

import pikepdf
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas
from weasyprint import HTML

import scans
from common import add, table_text
from texts_of import ARABIC, CHINESE, FERRY, GARDEN, GERMAN, MUSEUM, SPANISH, THAI


class Sheet:
    """A PDF of reportlab with lines from the top."""

    def __init__(self, size=A4):
        self.out = io.BytesIO()
        self.canvas = Canvas(self.out, pagesize=size, invariant=1)
        self.height = size[1]
        self.y = size[1] - 60

    def lines(self, texts, face="Helvetica", size=11, x=60, width=470):
        self.canvas.setFont(face, size)
        for text in texts:
            for line in wrapped(text, face, size, width):
                self.canvas.drawString(x, self.y, line)
                self.y -= size * 1.4
            self.y -= size * 0.8
        return self

    def next_page(self):
        self.canvas.showPage()
        self.y = self.height - 60
        return self

    def bytes(self):
        self.canvas.save()
        return self.out.getvalue()


def wrapped(text, face, size, width):
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if pdfmetrics.stringWidth(longer, face, size) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def changed(content, change, **options):
    """A PDF after a change by pikepdf."""
    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as pdf:
        change(pdf)
        pdf.save(out, **({"deterministic_id": True} | options))
    return out.getvalue()


def simple(title, paragraphs):
    return Sheet().lines([title], "Helvetica-Bold", 18).lines(paragraphs).bytes()


def web(body, style=""):
    return HTML(string=f"<html><head><style>@page {{ size: A5; margin: 15mm }} {style}</style></head><body>{body}</body></html>").write_pdf()


def paragraphs_of(texts):
    return "".join(f"<p>{text}</p>" for text in texts)


def encrypted():
    text = ["Access with an empty password", *MUSEUM[:3]]
    lock = pikepdf.Encryption(owner="owner of this file", user="", R=6)
    content = changed(simple(text[0], text[1:]), lambda pdf: None, encryption=lock, deterministic_id=False)
    add("pdf-aes-256.pdf", content, "PDF, AES-256 with an empty user password", "\n".join(text))


def damaged():
    text = ["Saved by a broken transfer", *FERRY[:3]]
    content = changed(simple(text[0], text[1:]), lambda pdf: None)
    # A banner moves all objects, the table does not know, and the end is missing.
    cut = b"Received by FAX-GATE 3.1\r\n" + content[: content.rindex(b"startxref") + 12]
    add("pdf-damaged-xref.pdf", cut, "PDF with a wrong cross-reference table and without its end", "\n".join(text))


def clipped():
    sheet = Sheet().lines(["What the reader sees"], "Helvetica-Bold", 18).lines(GARDEN[:2])
    canvas = sheet.canvas
    canvas.saveState()
    window = canvas.beginPath()
    window.rect(60, 300, 300, 60)
    canvas.clipPath(window, stroke=0)
    canvas.drawString(70, 330, "The window shows this sentence about tomatoes.")
    canvas.drawString(70, 250, "Zanzibar remains behind the frame.")
    canvas.restoreState()
    canvas.drawString(70, -40, "Quicksilver lies below the page.")
    hidden = canvas.beginText(70, 200)
    hidden.setTextRenderMode(3)
    hidden.textOut("Obsidian has no ink.")
    canvas.drawText(hidden)
    text = ["What the reader sees", *GARDEN[:2], "The window shows this sentence about tomatoes."]
    absent = ["Zanzibar", "Quicksilver"]
    add("pdf-clipped.pdf", sheet.bytes(), "PDF with text outside of its clipping and its page", "\n".join(text), absent=absent)


def book():
    """A book whose sentences go over pages, under headers and above numbers of pages."""
    chance = random.Random(11)
    subjects = "The keeper;The pilot;A visitor;The harbour board;Every skipper;The night watch;An inspector".split(";")
    verbs = "checks;repairs;paints;measures;records;orders;closes".split(";")
    objects = "the northern buoy;the iron ladder;the signal lamp;the fuel tank;the wooden pier;the rescue boat;the tide gauge".split(";")
    times = "before sunrise;after every storm;twice a month;in the second week of May;when the wind turns;at low water;on Fridays".split(";")
    sentences = [
        f"{chance.choice(subjects)} {chance.choice(verbs)} {chance.choice(objects)} {chance.choice(times)}, as rule {number} says."
        for number in range(101, 101 + 24 * 9)
    ]
    sheet = Sheet((360, 500))
    lines = wrapped(" ".join(sentences), "Times-Roman", 10, 260)
    per_page = 24
    pages = [lines[start : start + per_page] for start in range(0, len(lines), per_page)]
    for number, page in enumerate(pages, 1):
        canvas = sheet.canvas
        canvas.setFont("Times-Italic", 9)
        canvas.drawString(50, 470, "Harbour Handbook" if number % 2 else "Duties of the crew")
        canvas.drawRightString(310, 470, f"Chapter {1 + number // 8}")
        canvas.drawCentredString(180, 30, f"{number} / {len(pages)}")
        canvas.setFont("Times-Roman", 10)
        for index, line in enumerate(page):
            canvas.drawString(50, 440 - index * 14, line)
        sheet.next_page()
    what = f"PDF, a book of {len(pages)} pages with running headers"
    add("pdf-running-headers.pdf", sheet.bytes(), what, "Harbour Handbook\nDuties of the crew\n" + " ".join(sentences))


def xfa():
    fields = [("Applicant", "Rosalind Okafor"), ("Plot wanted", "Number 37 beside the well"), ("Start", "1 March 2025"), ("Reason", "My flat has no balcony and I grow beans")]
    wait = "Please wait... If this message is not eventually replaced, your PDF viewer may not be able to display this type of document."

    def put(pdf):
        name = lambda label: label.replace(" ", "_")
        boxes = "".join(
            f'<field name="{name(label)}"><ui><textEdit/></ui><caption><value><text>{label}</text></value></caption></field>'
            for label, _ in fields
        )
        template = f'<template xmlns="http://www.xfa.org/schema/xfa-template/3.0/"><subform name="form1" layout="tb"><pageSet><pageArea><contentArea w="200mm" h="280mm"/></pageArea></pageSet><subform name="page1"><draw name="title"><value><text>Application for an allotment</text></value></draw>{boxes}</subform></subform></template>'
        values = "".join(f"<{name(label)}>{value}</{name(label)}>" for label, value in fields)
        data = f'<xfa:datasets xmlns:xfa="http://www.xfa.org/schema/xfa-data/1.0/"><xfa:data><form1><page1>{values}</page1></form1></xfa:data></xfa:datasets>'
        parts = [("preamble", '<xdp:xdp xmlns:xdp="http://ns.adobe.com/xdp/">'), ("template", template), ("datasets", data), ("postamble", "</xdp:xdp>")]
        array = [each for part, xml in parts for each in (pikepdf.String(part), pdf.make_stream(xml.encode()))]
        pdf.Root.AcroForm = pdf.make_indirect(pikepdf.Dictionary(Fields=[], XFA=pikepdf.Array(array)))
        pdf.Root.NeedsRendering = True

    text = "\n".join(["Application for an allotment", *(f"{label} {value}" for label, value in fields)])
    add("pdf-xfa.pdf", changed(Sheet().lines([wait]).bytes(), put), "PDF, XFA form", text)


def form():
    sheet = Sheet().lines(["Order of seeds"], "Helvetica-Bold", 18)
    form, canvas = sheet.canvas.acroForm, sheet.canvas
    canvas.setFont("Helvetica", 11)
    rows = [("Customer", 700), ("Sort", 660), ("Delivery", 620), ("Newsletter", 580)]
    for label, y in rows:
        canvas.drawString(60, y, label)
    form.textfield(name="customer", x=160, y=694, width=220, height=20, value="Bartholomew Quint")
    form.choice(name="sort", x=160, y=654, width=220, height=20, value="t2", options=[("Cherry tomato", "t1"), ("Striped aubergine", "t2"), ("Sugar pea", "t3")])
    canvas.drawString(190, 620, "by post")
    canvas.drawString(290, 620, "collected")
    form.radio(name="delivery", value="post", selected=False, x=165, y=616, size=16, buttonStyle="circle")
    form.radio(name="delivery", value="collected", selected=True, x=265, y=616, size=16, buttonStyle="circle")
    form.checkbox(name="newsletter", checked=True, x=165, y=576, size=16)
    text = "Order of seeds\nCustomer Bartholomew Quint\nSort Striped aubergine\nDelivery by post collected\nNewsletter"
    add("pdf-form-choices.pdf", sheet.bytes(), "PDF, form with choices and marks", text)


CODE = '''def late_fee(days, rate=3):
    """The fee of a book that comes back late."""
    if days <= 0:
        return 0
    fee = days * rate
    # Never more than the price of a new book.
    return min(fee, 250)


for days in (0, 5, 120):
    print(days, late_fee(days))'''


def listing():
    sheet = Sheet().lines(["Listing 4: fees of the library"], "Helvetica-Bold", 14)
    sheet.canvas.setFont("Courier", 9)
    for number, line in enumerate(CODE.splitlines(), 1):
        sheet.canvas.drawRightString(74, sheet.y, str(number))
        sheet.canvas.drawString(84, sheet.y, line)
        sheet.y -= 12
    sheet.y -= 12
    sheet.lines(["The rate is given in roubles. Line 7 limits the fee to 250."])
    numbered = "\n".join(f"{number} {line}" for number, line in enumerate(CODE.splitlines(), 1))
    text = f"Listing 4: fees of the library\n{numbered}\nThe rate is given in roubles. Line 7 limits the fee to 250."
    add("pdf-source-code.pdf", sheet.bytes(), "PDF, source code with numbered lines", text)


def without_unicode():
    pdfmetrics.registerFont(TTFont("Codes", scans.FONTS + "DejaVuSans.ttf", asciiReadable=0))
    text = ["Letters without a map", *GARDEN[:3]]
    content = Sheet().lines(text, "Codes").bytes()

    def remove(pdf):
        for each in pdf.objects:
            if isinstance(each, pikepdf.Dictionary) and "/ToUnicode" in each:
                del each["/ToUnicode"]

    add("pdf-no-tounicode.pdf", changed(content, remove), "PDF whose font does not tell its letters", "\n".join(text))


def identical():
    text = ["Delivery note 5518", "Twelve crates of apples for the school kitchen in Lindenweg, received without damage by the caretaker."]
    sheet = Sheet()
    for _ in range(3):
        sheet.lines(text).next_page()
    add("pdf-identical-pages.pdf", sheet.bytes(), "PDF of three identical pages", "\n".join(text * 3))


def scripts():
    arabic = web(f'<h1>قواعد المكتبة</h1>{paragraphs_of(ARABIC)}', "html { direction: rtl; font-family: DejaVu Sans }")
    add("pdf-arabic.pdf", arabic, "PDF, Arabic", "\n".join(["قواعد المكتبة", *ARABIC]), "ar")
    chinese = web(f"<h1>借书规则</h1>{paragraphs_of(CHINESE)}", "html { font-family: WenQuanYi Micro Hei }")
    add("pdf-chinese.pdf", chinese, "PDF, Chinese", "\n".join(["借书规则", *CHINESE]), "zh")
    thai = web(f"<h1>ระเบียบห้องสมุด</h1>{paragraphs_of(THAI)}", "html { font-family: Loma }")
    add("pdf-thai.pdf", thai, "PDF, Thai", "\n".join(["ระเบียบห้องสมุด", *THAI]), "th")
    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    cid = Sheet().lines(["借书规则", *CHINESE], "STSong-Light", 12).bytes()
    add("pdf-chinese-not-embedded.pdf", cid, "PDF, Chinese in a font that is not embedded", "\n".join(["借书规则", *CHINESE]), "zh")


def columns():
    body = f'<h1>Mitteilungen der Gemeinde</h1><div class="c" lang="de">{paragraphs_of(GERMAN + GERMAN_MORE)}</div>'
    content = web(body, ".c { columns: 2; hyphens: auto; text-align: justify; font: 10pt DejaVu Serif }")
    add("pdf-two-columns.pdf", content, "PDF, two columns with words cut at the end of lines", "\n".join(["Mitteilungen der Gemeinde", *GERMAN, *GERMAN_MORE]), "de")


GERMAN_MORE = [
    "Das Wasserwerk liest die Zähler ab Oktober aus der Ferne ab; Hausbesuche entfallen, außer wenn der Funk nicht durchdringt.",
    "Der Wertstoffhof nimmt Grünschnitt nur noch samstags an, höchstens zwei Kubikmeter je Haushalt.",
    "Die Bürgersprechstunde der Bürgermeisterin findet am ersten Dienstag jedes Monats um siebzehn Uhr im Feuerwehrhaus statt.",
]

LEDGER = [
    ["Account", "Budget", "Spent", "Left", "Note"],
    ["Roof", "48,000", "51,320", "-3,320", "storm"],
    ["Heating", "12,500", "9,870", "2,630", ""],
    ["Books", "7,200", "7,200", "0", "closed"],
    ["Paint", "1,150", "", "1,150", "not begun"],
    ["Total", "68,850", "68,390", "460", ""],
]


def table():
    sheet = Sheet().lines(["Accounts of the reading room, 2023"], "Helvetica-Bold", 14)
    for row in LEDGER:
        for column, cell in enumerate(row):
            x = [60, 220, 300, 380, 420][column]
            if 0 < column < 4:
                sheet.canvas.drawRightString(x, sheet.y, cell)
            else:
                sheet.canvas.drawString(x, sheet.y, cell)
        sheet.y -= 18
    add("pdf-table.pdf", sheet.bytes(), "PDF, table without lines and with empty cells", "Accounts of the reading room, 2023\n" + table_text(LEDGER))


def turned():
    sheet = Sheet()
    canvas = sheet.canvas
    canvas.rotate(90)
    canvas.setFont("Helvetica", 11)
    text = ["Turnos de limpieza", *SPANISH]
    for index, line in enumerate(text):
        canvas.drawString(60, -80 - index * 24, line)
    content = changed(sheet.bytes(), lambda pdf: pdf.pages[0].rotate(90, relative=False))
    add("pdf-rotated-page.pdf", content, "PDF, a page turned by its entry", "\n".join(text), "es")


def notes():
    text = ["Draft of the house rules", *MUSEUM[3:5]]

    def annotate(pdf):
        rectangle = lambda x, y: pikepdf.Array([x, y, x + 220, y + 20])
        note = lambda kind, x, y, text, **more: pdf.make_indirect(
            pikepdf.Dictionary(Type=pikepdf.Name.Annot, Subtype=pikepdf.Name(kind), Rect=rectangle(x, y), Contents=text, T="Ada Marsh", F=4, **more)
        )
        pdf.pages[0].Annots = pdf.make_indirect(
            pikepdf.Array(
                [
                    note("/FreeText", 60, 560, "Approved on 4 June", DA="/Helv 11 Tf 0 g"),
                    note("/Text", 300, 780, "Ask the architect about the cellar first."),
                    note("/Text", 300, 700, "Paragraph nine is missing."),
                ]
            )
        )

    remarks = ["Approved on 4 June", "Ask the architect about the cellar first.", "Paragraph nine is missing."]
    add("pdf-notes.pdf", changed(simple(text[0], text[1:]), annotate), "PDF with notes and free text", "\n".join(text + remarks))


def mixed():
    sheet = Sheet((446, 446)).lines(["Contract of lease, printed part"], "Helvetica-Bold", 14, width=330).lines(GARDEN[:2], width=330).next_page()
    picture = io.BytesIO(scans.encoded(scans.page("Signed part", GARDEN[2:4], size=(6.2, 3))))
    sheet.canvas.drawImage(ImageReader(picture), 0, 200, 446, 216)
    sheet.next_page()
    text = ["Contract of lease, printed part", *GARDEN[:2], "Signed part", *GARDEN[2:4]]
    add("pdf-text-and-scan.pdf", sheet.bytes(), "PDF, one page of text and one scanned page", "\n".join(text))


def make():
    for maker in (encrypted, damaged, clipped, book, xfa, form, listing, without_unicode, identical, scripts, columns, table, turned, notes, mixed):
        maker()


