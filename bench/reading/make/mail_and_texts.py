"""Mail, pages of the web, texts and data."""

import base64
import json
import quopri
import struct
import subprocess
from pathlib import Path

from common import add, table_text, zipped
from texts_of import FERRY, GARDEN, GERMAN, MUSEUM, RUSSIAN, SPANISH

FRENCH = [
    "La piscine municipale rouvrira le 17 juin après le remplacement des filtres.",
    "L'abonnement annuel coûte cent dix-huit euros, la moitié pour les étudiants.",
    "Le maître-nageur refuse l'accès aux enfants de moins de huit ans sans parent.",
]

VIETNAMESE = [
    "Chợ nổi họp từ bốn giờ sáng đến chín giờ sáng, trừ ngày rằm.",
    "Mỗi thuyền bán hàng nộp lệ phí ba mươi nghìn đồng một tháng.",
    "Khách tham quan thuê thuyền nhỏ ở bến phía đông, mỗi chuyến chở sáu người.",
]


def mail(headers, body):
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n" + body


def parts(kind, boundary, *bodies):
    return {"Content-Type": f'multipart/{kind}; boundary="{boundary}"'}, "".join(f"--{boundary}\r\n{body}\r\n" for body in bodies) + f"--{boundary}--\r\n"


def based(text):
    return base64.encodebytes(text.encode()).decode().replace("\n", "\r\n")


def nested():
    html = f"<html><body><p>{GERMAN[0]}</p><p>{GERMAN[1]}</p><img src='cid:logo'></body></html>"
    plain = mail({"Content-Type": "text/plain; charset=iso-8859-1", "Content-Transfer-Encoding": "quoted-printable"}, quopri.encodestring(f"{GERMAN[0]}\n".encode("latin-1")).decode())
    picture = mail({"Content-Type": "image/gif", "Content-ID": "<logo>", "Content-Transfer-Encoding": "base64"}, "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7\r\n")
    related = mail(*parts("related", "rel", mail({"Content-Type": "text/html; charset=utf-8", "Content-Transfer-Encoding": "base64"}, based(html)), picture))
    alternative = mail(*parts("alternative", "alt", plain, related))
    forwarded = mail({"Content-Type": "message/rfc822"}, mail({"From": "Caretaker <caretaker@example.org>", "To": "office@example.org", "Subject": "Broken board", "Date": "Mon, 3 Jun 2024 08:12:00 +0200", "Content-Type": "text/plain; charset=utf-8"}, "The third board from the window gives way.\r\n"))
    attached = mail({"Content-Type": 'text/csv; name="plan.csv"', "Content-Disposition": 'attachment; filename="plan.csv"', "Content-Transfer-Encoding": "base64"}, based("room;week\n1;23\n"))
    kind, body = parts("mixed", "mix", alternative, forwarded, attached)
    headers = {"From": "=?utf-8?B?" + base64.b64encode("Jörg Weiß".encode()).decode() + "?= <joerg@example.org>", "To": "vereine@example.org", "Subject": "=?iso-8859-1?Q?Schlie=DFung_der_Turnhalle?=", "Date": "Tue, 4 Jun 2024 09:30:00 +0200", "MIME-Version": "1.0"}
    text = ["Schließung der Turnhalle", "From: Jörg Weiß joerg@example.org", "To: vereine@example.org", "2024-06-04", *GERMAN[:2], "Broken board", "The third board from the window gives way.", "plan.csv"]
    add("mail-nested-parts.eml", mail(headers | kind, body), "mail with nested parts and a forwarded mail", "\n".join(text), "de en")


def outlook():
    utf16 = lambda text: text.encode("utf-16-le")
    filetime = 133_620_000_000_000_000
    dates = b"".join(struct.pack("<IIQ", tag, 6, filetime) for tag in (0x00390040, 0x0E060040))
    streams = {
        "__properties_version1.0": struct.pack("<8xIIII8x", 1, 0, 1, 0) + dates,
        "__nameid_version1.0/__substg1.0_00020102": b"\0",
        "__substg1.0_001A001F": utf16("IPM.Note"),
        "__substg1.0_0037001F": utf16("Sauce for the harvest supper"),
        "__substg1.0_0C1A001F": utf16("Petra Lindqvist"),
        "__substg1.0_0C1F001F": utf16("petra@example.org"),
        "__substg1.0_1000001F": utf16(f"Dear all,\r\n\r\nwe need nine litres of sauce by Friday.\r\n\r\n{GARDEN[5]}\r\n\r\nPetra\r\n"),
        "__recip_version1.0_#00000000/__properties_version1.0": struct.pack("<8xIIQ", 0x0C150003, 6, 1),
        "__recip_version1.0_#00000000/__substg1.0_3001001F": utf16("Board"),
        "__recip_version1.0_#00000000/__substg1.0_39FE001F": utf16("board@example.org"),
    }
    encoded = json.dumps({path: base64.b64encode(content).decode() for path, content in streams.items()})
    here = Path(__file__).resolve().parent
    content = subprocess.run(["node", here / "compound.mjs"], input=encoded.encode(), capture_output=True, check=True).stdout
    text = ["Sauce for the harvest supper", "From: Petra Lindqvist petra@example.org", "To: Board board@example.org", "2024-06-04", "Dear all,", "we need nine litres of sauce by Friday.", GARDEN[5], "Petra"]
    add("mail-outlook.msg", content, "message of Outlook", "\n".join(text))


def letter(index, subject, lines):
    return mail({"From": f"clerk{index}@example.org", "To": "members@example.org", "Subject": subject, "Date": f"Fri, {index + 6:02} Sep 2024 12:00:00 +0000", "Message-ID": f"<{index}@example.org>", "Content-Type": "text/plain; charset=utf-8"}, "\r\n".join(lines) + "\r\n")


def boxes():
    first = letter(0, "Agenda", [FERRY[5], "From now on the pier is closed at night."])
    second = letter(7, "Re: Agenda", ["> Who closes the pier?", "", MUSEUM[3]])
    escaped = [each.replace("\r\n", "\n").replace("\nFrom now", "\n>From now") for each in (first, second)]
    mbox = "".join(f"From clerk@example.org Fri Sep  6 12:00:00 2024\n{each}\n" for each in escaped)
    text = ["Agenda", "clerk0@example.org", "members@example.org", FERRY[5], "From now on the pier is closed at night.", "Re: Agenda", "clerk7@example.org", "members@example.org", "Who closes the pier?", MUSEUM[3]]
    add("mail-box.mbox", mbox, "mailbox of two mails, with a masked From line", "\n".join(text))

    apple = letter(14, "Stove", ["The stove in the hall smokes.", GARDEN[3]]).replace("\r\n", "\n").encode()
    plist = b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n<plist version="1.0"><dict><key>flags</key><integer>8590195713</integer></dict></plist>\n'
    text = ["Stove", "clerk14@example.org", "members@example.org", "The stove in the hall smokes.", GARDEN[3]]
    add("mail-apple.emlx", str(len(apple)).encode() + b"\n" + apple + plist, "mail of Apple Mail", "\n".join(text), absent=["8590195713"])

    page = f"<html><head><title>Piscine</title><style>p {{ color: red }}</style></head><body><h1>Piscine municipale</h1>{''.join(f'<p>{line}</p>' for line in FRENCH)}</body></html>"
    html = mail({"Content-Type": "text/html; charset=windows-1252", "Content-Transfer-Encoding": "quoted-printable", "Content-Location": "http://example.org/piscine"}, quopri.encodestring(page.encode("cp1252")).decode())
    style = mail({"Content-Type": "text/css", "Content-Location": "http://example.org/a.css"}, "h1 { margin: 0 }\r\n")
    kind, body = parts("related", "mht", html, style)
    kind["Content-Type"] += '; type="text/html"'
    add("page-saved.mht", mail({"From": "<Saved by a browser>", "Subject": "Piscine", "MIME-Version": "1.0"} | kind, body), "web page saved as MHTML, windows-1252", "\n".join(["Piscine municipale", *FRENCH]), "fr")


def texts():
    page = f'<html><head><meta http-equiv="Content-Type" content="text/html; charset=utf-8"><title>Библиотека</title></head><body><nav><a href="/">Главная</a></nav><main><h1>Правила библиотеки</h1>{"".join(f"<p>{line}</p>" for line in RUSSIAN)}</main><script>var hidden = "кукуруза";</script></body></html>'
    add("page-wrong-charset.html", page.encode("cp1251"), "web page in windows-1251 that names UTF-8", "\n".join(["Правила библиотеки", *RUSSIAN]), "ru", absent=["кукуруза"])
    rows = [["Город", "Жители", "Примечание"], ["Лесной", "14 200", "мост; закрыт"], ["Озёрск", "9 870", "рынок по средам"], ["Каменка", "3 115", ""]]
    quoted = "\r\n".join(";".join(f'"{cell}"' if ";" in cell else cell for cell in row) for row in rows)
    add("data-windows-1251.csv", quoted.encode("cp1251"), "CSV in windows-1251 with semicolons", table_text(rows), "ru")
    records = [{"id": "A-17", "item": "Stethoscope", "price": 84.5, "stock": {"shelf": "C4", "count": 12}}, {"id": "B-02", "item": "Otoscope", "price": 131, "stock": {"shelf": "D1", "count": 3}}]
    text = "A-17 Stethoscope 84.5 C4 12\nB-02 Otoscope 131 D1 3"
    add("data-records.json", json.dumps(records), "JSON, nested records", text)
    markdown = f"---\ntitle: Handbook\n---\n\n# Handbook of the club\n\n{GARDEN[0]}\n\n| Tool | Place |\n|------|-------|\n| Scythe | loft |\n| Rake | shed |\n\n> {GARDEN[1]}\n\n1. Lock the gate\n2. Hang up the key\n\n```sh\nmake harvest\n```\n"
    text = ["Handbook of the club", GARDEN[0], "Tool Place", "Scythe loft", "Rake shed", GARDEN[1], "Lock the gate", "Hang up the key", "make harvest"]
    add("text-markdown.md", markdown, "Markdown with a table, a quotation and code", "\n".join(text))
    add("text-utf-16.txt", "\n".join(["Chợ nổi", *VIETNAMESE]).encode("utf-16-be"), "plain text in UTF-16 without a mark", "\n".join(["Chợ nổi", *VIETNAMESE]), "vi")
    archive = {"rules/dogs.txt": FERRY[3], "rules/fees.csv": "Item,Fee\nLost key,18\nNew lock,64\n", "mercado.html": f"<html><body><h1>Mercado</h1><p>{SPANISH[1]}</p></body></html>"}
    text = ["dogs.txt", FERRY[3], "fees.csv", "Item Fee", "Lost key 18", "New lock 64", "mercado.html", "Mercado", SPANISH[1]]
    add("archive.zip", zipped(archive), "ZIP archive of three files", "\n".join(text), "en es")


def make():
    for maker in (nested, outlook, boxes, texts):
        maker()
