"""Makes the files of `../set` anew: `python make.py`, with requirements.txt, the fonts DejaVu, Loma and WenQuanYi Micro
Hei, `node`, and LibreOffice as `soffice` or as SOFFICE names it. All texts are the project's own."""

import mail_and_texts
import pdfs
import scans
import slides_and_sheets
import words
from common import SET, made, write_manifest

for old in SET.iterdir():
    old.unlink()
for maker in (scans, pdfs, words, slides_and_sheets, mail_and_texts):
    maker.make()
write_manifest()
print(f"{len(made)} files")
