#!/bin/sh
# Stands for LibreOffice where only what comes of its PDF matters: prints two pages with a word each. Its last two
# arguments are the folder to print to and the file.
while [ $# -gt 2 ]; do shift; done
[ "$1" = "$2" ] && exit 1
folder=${2%/*}
cat > "$folder/document.pdf" <<'PDF'
%PDF-1.4
1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj
2 0 obj << /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >> endobj
3 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R /Resources << /Font << /F 7 0 R >> >> >> endobj
4 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 6 0 R /Resources << /Font << /F 7 0 R >> >> >> endobj
5 0 obj << /Length 74 >> stream
BT /F 12 Tf 72 770 Td (The first page tells of fees and notices.) Tj ET
endstream endobj
6 0 obj << /Length 76 >> stream
BT /F 12 Tf 72 770 Td (The second page tells of storeys and offices) Tj ET
endstream endobj
7 0 obj << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> endobj
trailer << /Root 1 0 R >>
%%EOF
PDF
