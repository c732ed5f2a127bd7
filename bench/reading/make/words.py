"""Files of text processors, and books."""

import os
import subprocess
import tempfile
from pathlib import Path

from docx import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml

from common import add, saved, table_text, zipped
from texts_of import FERRY, GARDEN, GERMAN, MUSEUM, RUSSIAN, SPANISH

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def converted(content, old, new):
    """A file as LibreOffice saves it in another format."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"file.{old}"
        source.write_bytes(content)
        program = os.environ.get("SOFFICE", "soffice")
        subprocess.run([program, "--headless", "--convert-to", new, "--outdir", folder, source], check=True, capture_output=True)
        return (Path(folder) / f"file.{new.split(':')[0]}").read_bytes()


def document(title, paragraphs):
    made = Document()
    made.add_heading(title, 1)
    for paragraph in paragraphs:
        made.add_paragraph(paragraph)
    return made


def insert(made, xml):
    made.element.body.insert_element_before(parse_xml(xml), "w:sectPr")


def paragraph_xml(text):
    return f'<w:p {W}><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def alternative_parts():
    made = document("Minutes of two meetings", [FERRY[0]])
    html = f"<html><body><h2>Second meeting</h2><p>{MUSEUM[1]}</p><ul><li>Buy oil for the pendulum</li></ul></body></html>"
    for name, media, content in [("import.html", "text/html", html), ("import.txt", "text/plain", f"Third meeting\r\n{GARDEN[4]}\r\n")]:
        part = Part(PackURI(f"/word/{name}"), media, content.encode(), made.part.package)
        relation = made.part.relate_to(part, RELATIONSHIP_TYPE.A_F_CHUNK)
        insert(made, f'<w:altChunk {W} xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" r:id="{relation}"/>')
    text = ["Minutes of two meetings", FERRY[0], "Second meeting", MUSEUM[1], "Buy oil for the pendulum", "Third meeting", GARDEN[4]]
    add("docx-alternative-parts.docx", saved(made), "DOCX with parts in HTML and plain text", "\n".join(text))


def tracked():
    made = document("Statute, under revision", [FERRY[1]])
    run = lambda text, tag="t": f'<w:r><w:{tag} xml:space="preserve">{text}</w:{tag}></w:r>'
    by = 'w:id="7" w:author="Ada" w:date="2024-05-01T10:00:00Z"'
    insert(made, f'<w:p {W}>{run("The fee is ")}<w:del {by}>{run("seventeen", "delText")}</w:del><w:ins {by}>{run("twenty-four")}</w:ins>{run(" a year for each member.")}</w:p>')
    insert(made, f'<w:p {W}><w:pPr><w:rPr><w:del {by}/></w:rPr></w:pPr><w:del {by}>{run("Obsolete paragraph about lanterns.", "delText")}</w:del></w:p>')
    insert(made, f'<w:p {W}><w:moveFrom {by}>{run("The treasurer keeps the wandering sentence.")}</w:moveFrom></w:p>')
    insert(made, paragraph_xml(GARDEN[5]))
    insert(made, f'<w:p {W}><w:moveTo {by}>{run("The treasurer keeps the wandering sentence.")}</w:moveTo></w:p>')
    hidden = f'<w:p {W}><w:r><w:rPr><w:vanish/></w:rPr><w:t>Invisible remark about salaries.</w:t></w:r></w:p>'
    insert(made, hidden)
    text = ["Statute, under revision", FERRY[1], "The fee is twenty-four a year for each member.", GARDEN[5], "The treasurer keeps the wandering sentence."]
    add("docx-tracked-changes.docx", saved(made), "DOCX with tracked changes and hidden text", "\n".join(text), absent=["seventeen", "lanterns", "salaries"])


def text_boxes():
    made = document("Poster of the summer fair", [SPANISH[2]])
    box = lambda text: f"<w:txbxContent>{paragraph_xml(text)}</w:txbxContent>"
    names = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" xmlns:v="urn:schemas-microsoft-com:vml"'
    new = lambda text: f'<w:drawing><wp:inline><wp:extent cx="2000000" cy="600000"/><wp:docPr id="3" name="Box"/><a:graphic><a:graphicData uri="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"><wps:wsp><wps:txbx>{box(text)}</wps:txbx><wps:bodyPr/></wps:wsp></a:graphicData></a:graphic></wp:inline></w:drawing>'
    old = lambda text: f'<w:pict><v:shape type="#_x0000_t202" style="width:200pt;height:50pt"><v:textbox>{box(text)}</v:textbox></v:shape></w:pict>'
    both, single = "Entrada libre para menores de doce años", "Se ruega no aparcar delante de la iglesia"
    insert(made, f'<w:p {W} {names}><w:r><mc:AlternateContent><mc:Choice Requires="wps">{new(both)}</mc:Choice><mc:Fallback>{old(both)}</mc:Fallback></mc:AlternateContent></w:r></w:p>')
    insert(made, f"<w:p {W} {names}><w:r>{old(single)}</w:r></w:p>")
    insert(made, paragraph_xml(SPANISH[0]))
    text = ["Poster of the summer fair", SPANISH[2], both, single, SPANISH[0]]
    add("docx-text-boxes.docx", saved(made), "DOCX with text boxes, new and old", "\n".join(text), "en es")


NOTES = {"footnotes": ("footnote", "Measured on the quay in 2019 by the surveyor."), "endnotes": ("endnote", "See the report of the fire brigade."), "comments": ("comment", "Is this still true?")}


def with_notes():
    made = document("The engine of the ferry", [])
    reference = lambda kind: f'<w:r><w:{kind}Reference w:id="2"/></w:r>'
    insert(made, f'<w:p {W}><w:r><w:t>{FERRY[0]}</w:t></w:r>{reference("footnote")}</w:p>')
    insert(made, f'<w:p {W}><w:r><w:t>{FERRY[4]}</w:t></w:r>{reference("endnote")}</w:p>')
    insert(made, f'<w:p {W}><w:r><w:t>{FERRY[5]}</w:t></w:r>{reference("comment")}</w:p>')
    for part, (kind, text) in NOTES.items():
        xml = f'<?xml version="1.0"?><w:{part} {W}><w:{kind} w:id="2" w:author="Ada">{paragraph_xml(text)}</w:{kind}></w:{part}>'
        media = f"application/vnd.openxmlformats-officedocument.wordprocessingml.{part}+xml"
        made.part.relate_to(Part(PackURI(f"/word/{part}.xml"), media, xml.encode(), made.part.package), f"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{part}")
    text = ["The engine of the ferry", FERRY[0], NOTES["footnotes"][1], FERRY[4], NOTES["endnotes"][1], FERRY[5], NOTES["comments"][1]]
    add("docx-notes.docx", saved(made), "DOCX with footnotes, endnotes and comments", "\n".join(text))


ROTA = [["Week", "Early", "Late"], ["23", "Amira", "Joost"], ["24", "Joost", "Petra"], ["25", "Petra", "Amira"]]


def tables():
    made = document("Rota of the lock keepers", [])
    table = made.add_table(rows=5, cols=3)
    table.style = "Table Grid"
    table.cell(0, 0).merge(table.cell(0, 2)).text = "Rota for June"
    for row, cells in enumerate(ROTA, 1):
        for column, cell in enumerate(cells):
            table.cell(row, column).text = cell
    outer = made.add_table(rows=1, cols=2)
    outer.cell(0, 0).text = "Deputy"
    inner = outer.cell(0, 1).add_table(rows=1, cols=2)
    inner.cell(0, 0).text = "Hendrika"
    inner.cell(0, 1).text = "Room 4"
    made.add_paragraph("Swaps are agreed in writing.")
    text = f"Rota of the lock keepers\nRota for June\n{table_text(ROTA)}\nDeputy Hendrika Room 4\nSwaps are agreed in writing."
    add("docx-tables.docx", saved(made), "DOCX with a merged and a nested table", text)


def rich_text():
    escaped = lambda text, page: "".join(c if c.isascii() else "".join(f"\\'{b:02x}" for b in c.encode(page)) for c in text)
    cyrillic = lambda text: escaped(text, "cp1251")
    row = lambda cells: "\\trowd\\trgaph70" + "".join(f"\\cellx{(index + 1) * 2600}" for index in range(len(cells))) + "\\pard\\intbl " + "\\cell ".join(cells) + "\\cell\\row\n"
    rates = [["Раздел", "Книг", "Год"], ["История", "1840", "1996"], ["Физика", "912", "2003"]]
    body = "".join(row([cyrillic(cell) for cell in cells]) for cells in rates)
    text = "{\\rtf1\\ansi\\ansicpg1251\\deff0{\\fonttbl{\\f0\\fcharset204 Arial;}}{\\*\\generator none}\n{\\pard\\b " + cyrillic("Правила библиотеки") + "\\par}\n"
    text += "".join(f"{{\\pard {cyrillic(paragraph)}\\par}}\n" for paragraph in RUSSIAN) + body + "\\pard " + cyrillic("Конец списка") + "\\par}"
    add("rtf-cells.rtf", text, "RTF with a table, windows-1251", "\n".join(["Правила библиотеки", *RUSSIAN, table_text(rates), "Конец списка"]), "ru")

    parts = [(0, "cp1252", "Die Führung kostet fünf Euro."), (1, "cp1251", "Экскурсия стоит пять евро."), (2, "cp932", "見学料は五百円です。"), (3, "cp1253", "Η είσοδος κοστίζει πέντε ευρώ.")]
    fonts = "".join(f"{{\\f{number}\\fcharset{charset} Font{number};}}" for number, charset in enumerate([0, 204, 128, 161]))
    hexed = lambda text, page: "".join(f"\\'{b:02x}" for b in text.encode(page))
    lines = "".join(f"{{\\pard\\f{number} {hexed(text, page)}\\par}}\n" for number, page, text in parts)
    unicode = "".join(f"\\u{ord(c)}?" for c in "入场费三十元。")
    add("rtf-code-pages.rtf", "{\\rtf1\\ansi\\ansicpg1252\\uc1\\deff0{\\fonttbl" + fonts + "}\n" + lines + "{\\pard " + unicode + "\\par}}", "RTF, each font with a code page of its own", "\n".join([*(text for _, _, text in parts), "入场费三十元。"]), "de ru ja el zh")


def report():
    made = document("Bericht der Gemeinde", GERMAN)
    made.add_heading("Kosten", 2)
    table = made.add_table(rows=0, cols=3)
    costs = [["Posten", "Plan", "Ist"], ["Boden", "84.000", "91.500"], ["Fenster", "22.300", "21.950"]]
    for cells in costs:
        for cell, value in zip(table.add_row().cells, cells):
            cell.text = value
    made.add_paragraph("Der Gemeinderat hat dem Nachtrag zugestimmt.")
    for step in ["Boden entfernen", "Estrich trocknen", "Parkett verlegen"]:
        made.add_paragraph(step, style="List Number")
    made.sections[0].footer.paragraphs[0].text = "Gemeinde Oberlauf"
    text = ["Bericht der Gemeinde", *GERMAN, "Kosten", table_text(costs), "Der Gemeinderat hat dem Nachtrag zugestimmt.", "Boden entfernen", "Estrich trocknen", "Parkett verlegen", "Gemeinde Oberlauf"]
    return saved(made), "\n".join(text)


def of_office():
    content, text = report()
    add("doc-report.doc", converted(content, "docx", "doc"), "DOC of LibreOffice with a table and a list", text, "de")
    add("odt-report.odt", converted(content, "docx", "odt"), "ODT of LibreOffice with a table and a list", text, "de")
    flat = converted(saved(document("Das Uhrenmuseum", MUSEUM[:2] + GERMAN[2:])), "docx", "fodt")
    add("odt-flat.fodt", flat, "flat ODT", "\n".join(["Das Uhrenmuseum", *MUSEUM[:2], *GERMAN[2:]]), "en de")
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in ["Rules of the lower deck", *FERRY[2:4]])
    row = "<w:tr><w:tc><w:p><w:r><w:t>Rope</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>12 metres</w:t></w:r></w:p></w:tc></w:tr>"
    xml = f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<?mso-application progid="Word.Document"?>\n<w:wordDocument xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml"><w:body>{body}<w:tbl>{row}</w:tbl></w:body></w:wordDocument>'
    add("doc-word-2003.xml", xml, "Word's XML of 2003", "\n".join(["Rules of the lower deck", *FERRY[2:4], "Rope 12 metres"]))


def books():
    sections = "".join(f"<section><title><p>{title}</p></title>{''.join(f'<p>{text}</p>' for text in texts)}</section>" for title, texts in [("Глава первая", RUSSIAN[:2]), ("Глава вторая", RUSSIAN[2:])])
    fb2 = f'<?xml version="1.0" encoding="windows-1251"?><FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0" xmlns:l="http://www.w3.org/1999/xlink"><description><title-info><genre>reference</genre><author><first-name>Анна</first-name><last-name>Лесная</last-name></author><book-title>Записки библиотекаря</book-title><lang>ru</lang></title-info></description><body>{sections}</body><body name="notes"><section id="n1"><p>Примечание о переплётах.</p></section></body></FictionBook>'
    text = ["Записки библиотекаря", "Анна Лесная", "Глава первая", *RUSSIAN[:2], "Глава вторая", *RUSSIAN[2:], "Примечание о переплётах."]
    add("book.fb2", fb2.encode("cp1251"), "FictionBook, windows-1251", "\n".join(text), "ru")

    jats = f'''<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Archiving and Interchange DTD v1.2 20190208//EN" "JATS-archivearticle1.dtd"><article xmlns:xlink="http://www.w3.org/1999/xlink" article-type="research-article"><front><journal-meta><journal-title-group><journal-title>Annals of Small Harbours</journal-title></journal-title-group></journal-meta><article-meta><title-group><article-title>Tides and timetables</article-title></title-group><contrib-group><contrib contrib-type="author"><name><surname>Thorvald</surname><given-names>Ines</given-names></name></contrib></contrib-group><abstract><p>{FERRY[1]}</p></abstract></article-meta></front><body><sec><title>Methods</title><p>{FERRY[0]} <xref ref-type="bibr" rid="r1">[1]</xref></p><table-wrap><label>Table 1</label><caption><p>Delays</p></caption><table><tr><th>Month</th><th>Minutes</th></tr><tr><td>March</td><td>14</td></tr></table></table-wrap></sec><sec><title>Results</title><p>{FERRY[4]}</p></sec></body><back><ref-list><ref id="r1"><mixed-citation>Okafor R. Fog signals. 2011.</mixed-citation></ref></ref-list></back></article>'''
    text = ["Tides and timetables", "Ines Thorvald", FERRY[1], "Methods", FERRY[0], "[1]", "Table 1", "Delays", "Month Minutes", "March 14", "Results", FERRY[4], "Okafor R. Fog signals. 2011."]
    add("article.jats.xml", jats, "article in JATS", "\n".join(text))

    chapter = lambda title, texts: f'<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title>{title}</title></head><body><h1>{title}</h1>{"".join(f"<p>{text}</p>" for text in texts)}</body></html>'
    chapters = {"z-first.xhtml": ("Of water", GARDEN[:2]), "a-second.xhtml": ("Of noise", GARDEN[3:4]), "m-third.xhtml": ("Of bees", GARDEN[4:])}
    manifest = "".join(f'<item id="c{index}" href="text/{name}" media-type="application/xhtml+xml"/>' for index, name in enumerate(chapters))
    spine = "".join(f'<itemref idref="c{index}"/>' for index in range(len(chapters)))
    points = "".join(f'<navPoint id="n{index}" playOrder="{index + 1}"><navLabel><text>{title}</text></navLabel><content src="text/{name}"/></navPoint>' for index, (name, (title, _)) in enumerate(chapters.items()))
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OPS/book.opf": f'<?xml version="1.0"?><package version="2.0" xmlns="http://www.idpf.org/2007/opf" unique-identifier="id"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The allotment year</dc:title><dc:identifier id="id">x1</dc:identifier><dc:language>en</dc:language></metadata><manifest><item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>{manifest}</manifest><spine toc="ncx">{spine}</spine></package>',
        "OPS/toc.ncx": f'<?xml version="1.0"?><ncx version="2005-1" xmlns="http://www.daisy.org/z3986/2005/ncx/"><head/><docTitle><text>The allotment year</text></docTitle><navMap>{points}</navMap></ncx>',
    } | {f"OPS/text/{name}": chapter(title, texts) for name, (title, texts) in chapters.items()}
    text = [line for title, texts in chapters.values() for line in [title, *texts]]
    add("book.epub", zipped(parts, stored=["mimetype"]), "EPUB whose files are not in alphabetical order", "\n".join(text))


def make():
    for maker in (alternative_parts, tracked, text_boxes, with_notes, tables, rich_text, of_office, books):
        maker()
