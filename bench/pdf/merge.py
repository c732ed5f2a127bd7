"""Merges PDFs again and again until there are enough pages: python3 -I merge.py TOOLS_DIR PAGES OUTPUT FILE..."""

import sys

tools_dir, pages, output, *files = sys.argv[1:]
sys.path.insert(0, tools_dir)
import pypdfium2

merged = pypdfium2.PdfDocument.new()
while len(merged) < int(pages):
    for file in files:
        merged.import_pages(pypdfium2.PdfDocument(file))
merged.save(output)
