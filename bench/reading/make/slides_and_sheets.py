"""Presentations and workbooks."""

import datetime

import xlwt
from openpyxl import Workbook
from openpyxl.comments import Comment
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from common import add, edited, saved, table_text
from texts_of import FERRY, RUSSIAN
from words import converted

BOX = [Inches(1), Inches(2), Inches(6), Inches(1)]


def slide(show, title, layout=5):
    made = show.slides.add_slide(show.slide_layouts[layout])
    made.shapes.title.text = title
    return made


def put_table(made, rows):
    table = made.shapes.add_table(len(rows), len(rows[0]), *BOX).table
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            table.cell(row, column).text = cell


PIERS = [["Pier", "Length", "Depth"], ["North", "64 m", "3.1 m"], ["South", "41 m", "2.2 m"]]


def show_with_notes():
    show = Presentation()
    first = slide(show, "Works in the harbour", 1)
    first.placeholders[1].text = "Dredging begins in April\nThe crane moves to the south pier"
    first.notes_slide.notes_text_frame.text = "Say that the mayor pays for the crane."
    second = slide(show, "The two piers")
    put_table(second, PIERS)
    third = slide(show, "Who does what")
    group = third.shapes.add_group_shape()
    group.shapes.add_textbox(*BOX).text_frame.text = "Divers inspect the piles"
    inner = group.shapes.add_group_shape()
    inner.shapes.add_textbox(Inches(1), Inches(4), Inches(6), Inches(1)).text_frame.text = "Welders close the sluice"
    third.notes_slide.notes_text_frame.text = "The divers come from Tromso."
    return saved(show), [
        *["Works in the harbour", "Dredging begins in April", "The crane moves to the south pier", "Say that the mayor pays for the crane."],
        *["The two piers", table_text(PIERS), "Who does what"],
        *["Divers inspect the piles", "Welders close the sluice", "The divers come from Tromso."],
    ]


def shows():
    content, text = show_with_notes()
    add("pptx-notes-and-groups.pptx", content, "PPTX with notes, a table and nested groups", "\n".join(text))
    add("odp-notes-and-groups.odp", converted(content, "pptx", "odp"), "ODP of LibreOffice with notes, a table and nested groups", "\n".join(text))
    show = Presentation()
    made = slide(show, "Passengers by season")
    data = CategoryChartData()
    data.categories = ["Spring", "Summer", "Autumn"]
    data.add_series("Adults", (1840, 6125, 2210))
    data.add_series("Children", (412, 1977, 350))
    made.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *BOX[:3], Inches(4), data)
    hidden = slide(show, "Only for the board")
    hidden.shapes.add_textbox(*BOX).text_frame.text = "Reserve for the new engine: 88,000"
    hidden._element.set("show", "0")
    rows = [["", "Adults", "Children"], ["Spring", "1840", "412"], ["Summer", "6125", "1977"], ["Autumn", "2210", "350"]]
    text = f"Passengers by season\n{table_text(rows)}\nOnly for the board\nReserve for the new engine: 88,000"
    add("pptx-chart.pptx", saved(show), "PPTX with a chart and a hidden slide", text)


MEMBERS = [["Name", "Plot", "Paid"], ["Ndidi Eze", "12", "95"], ["Tomas Hruby", "13", "0"], ["Wen Lai", "14", "107"]]


def typed(cell):
    return int(cell) if cell.isdigit() else cell


def workbooks():
    book = Workbook()
    sheet = book.active
    sheet.title = "Members"
    sheet["A1"] = "Allotment association, members"
    for row, cells in enumerate(MEMBERS):
        for column, cell in enumerate(cells):
            sheet.cell(3 if row == 0 else row + 4, column + 2, typed(cell))
    sheet["B10"] = "Checked by the treasurer"
    text = f"Members\nAllotment association, members\n{table_text(MEMBERS)}\nChecked by the treasurer"
    add("xlsx-detached-header.xlsx", saved(book), "XLSX, header apart from its rows", text)

    book = Workbook()
    book.active.title = "Poster"
    drawing = "http://schemas.openxmlformats.org/drawingml/2006"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    paragraphs = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in ["Harvest supper", FERRY[2]])
    shape = f'<xdr:wsDr xmlns:xdr="{drawing}/spreadsheetDrawing" xmlns:a="{drawing}/main"><xdr:twoCellAnchor><xdr:from><xdr:col>1</xdr:col><xdr:colOff>0</xdr:colOff><xdr:row>1</xdr:row><xdr:rowOff>0</xdr:rowOff></xdr:from><xdr:to><xdr:col>6</xdr:col><xdr:colOff>0</xdr:colOff><xdr:row>9</xdr:row><xdr:rowOff>0</xdr:rowOff></xdr:to><xdr:sp macro="" textlink=""><xdr:nvSpPr><xdr:cNvPr id="2" name="TextBox 1"/><xdr:cNvSpPr txBox="1"/></xdr:nvSpPr><xdr:spPr/><xdr:txBody><a:bodyPr/>{paragraphs}</xdr:txBody></xdr:sp><xdr:clientData/></xdr:twoCellAnchor></xdr:wsDr>'
    part = "application/vnd.openxmlformats-officedocument.drawing+xml"
    changes = {
        "xl/drawings/drawing1.xml": shape,
        "xl/worksheets/_rels/sheet1.xml.rels": f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="{relations}/drawing" Target="../drawings/drawing1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": lambda xml: xml.replace("</worksheet>", f'<drawing xmlns:r="{relations}" r:id="rId1"/></worksheet>'),
        "[Content_Types].xml": lambda xml: xml.replace("</Types>", f'<Override PartName="/xl/drawings/drawing1.xml" ContentType="{part}"/></Types>'),
    }
    add("xlsx-text-box-only.xlsx", edited(saved(book), changes), "XLSX with nothing but a text box", f"Harvest supper\n{FERRY[2]}")

    book = Workbook()
    sheet = book.active
    sheet.title = "Bookings"
    sheet["A1"] = "Bookings of the hall"
    sheet.merge_cells("A1:D1")
    rows = [["Group", "Day", "Share", "Price"], ["Choir", datetime.date(2024, 9, 3), 0.25, 120.5], [None, datetime.date(2024, 9, 10), 0.5, 241], ["Chess", datetime.date(2024, 12, 24), 1, 80]]
    for row in rows:
        sheet.append(row)
    sheet.merge_cells("A3:A4")
    for line in (3, 4, 5):
        sheet[f"B{line}"].number_format = "yyyy-mm-dd"
        sheet[f"C{line}"].number_format = "0%"
        sheet[f"D{line}"].number_format = "0.00"
    sheet["D5"].comment = Comment("Reduced because of the broken stove", "Ada")
    other = book.create_sheet("Keys")
    other.append(["Key", "Holder"])
    other.append(["Cellar", "Mrs Abara"])
    secret = book.create_sheet("Old prices")
    secret.append(["Year", "Price"])
    secret.append([2019, 66])
    secret.sheet_state = "hidden"
    shown = [["Group", "Day", "Share", "Price"], ["Choir", "2024-09-03", "25%", "120.50"], ["Choir", "2024-09-10", "50%", "241.00"], ["Chess", "2024-12-24", "100%", "80.00"]]
    text = f"Bookings\nBookings of the hall\n{table_text(shown)}\nReduced because of the broken stove\nKeys\nKey Holder\nCellar Mrs Abara\nOld prices\nYear Price\n2019 66"
    content = saved(book)
    add("xlsx-merged-cells.xlsx", content, "XLSX with merged cells, dates, comments and three sheets", text)
    add("ods-merged-cells.ods", converted(content, "xlsx", "ods"), "ODS of LibreOffice, the same", text)

    book = xlwt.Workbook(encoding="cp1251")
    sheet = book.add_sheet("Читатели")
    readers = [["Имя", "Билет", "Срок"], ["Олег Сомов", 20417, datetime.date(2025, 3, 31)], ["Вера Лунина", 20988, datetime.date(2025, 7, 15)]]
    day = xlwt.easyxf(num_format_str="DD.MM.YYYY")
    for row, cells in enumerate(readers):
        for column, cell in enumerate(cells):
            sheet.write(row, column, cell, *([day] if isinstance(cell, datetime.date) else []))
    rules = book.add_sheet("Правила")
    for row, line in enumerate(RUSSIAN):
        rules.write(row, 0, line)
    text = f"Читатели\nИмя Билет Срок\nОлег Сомов 20417 31.03.2025\nВера Лунина 20988 15.07.2025\nПравила\n" + "\n".join(RUSSIAN)
    add("xls-two-sheets.xls", saved(book), "XLS with dates and two sheets, Russian", text, "ru")


def make():
    shows()
    workbooks()
