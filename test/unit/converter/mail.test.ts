import { expect } from 'chai';
import iconv from 'iconv-lite';
import { parseEml, parseMsg } from '#src/adapters/converter/formats/mail.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { compoundFile } from '#test/support/compound-file.ts';

const head = 'From: Ann Lee <ann@example.org>\r\nTo: Bo <bo@example.org>, team@example.org\r\nMIME-Version: 1.0\r\n';

describe('parseEml', () => {
  it('renders sender, recipients, date and text, and lists attachments', async () => {
    const { body, title } = await eml(`${head}Cc: Board: cy@example.org;
Subject: =?utf-8?B?UHJlaXNlIGbDvHIgMjAyNA==?=
Date: Fri, 2 Feb 2024 09:30:00 +0100
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Gr=C3=BC=C3=9Fe,
> what was asked
--x
Content-Type: application/pdf; name="prices.pdf"
Content-Disposition: attachment; filename="prices.pdf"
Content-Transfer-Encoding: base64

${Buffer.alloc(3_000).toString('base64')}
--x--
`);
    expect(body).to.equal(
      '# Preise für 2024\n\nFrom: Ann Lee <ann@example.org>\nTo: Bo <bo@example.org>, team@example.org\nCc: Board: cy@example.org\n' +
        'Date: 2024-02-02 08:30 UTC\n\nGrüße,\n> what was asked\n\nAttachments:\n\n- prices.pdf (3 KiB)',
    );
    expect(title).to.equal('Preise für 2024');
  });

  it('drops hidden lines and layout tables, and keeps data tables', async () => {
    const text = await bodyOfHtml(
      `<html><head><title>x</title><style>p{}</style></head><body><div style="display:none">Preview</div>
      <table role="presentation"><tr><td><table><tr><td><h1>Prices</h1><p>As agreed.</p></td></tr></table></td><td></td></tr></table>
      <table><tr><th>Item</th><th>Price</th></tr><tr><td>Bolt</td><td>2</td></tr></table>
      <blockquote><p>What do bolts cost?</p></blockquote></body></html>`,
    );
    expect(text).to.equal(
      '# Prices\n\nAs agreed.\n\n| Item | Price |\n| --- | --- |\n| Bolt | 2 |\n\n> What do bolts cost?',
    );
  });

  it('includes forwarded messages and lists invitations, but no inline pictures', async () => {
    const { body } = await eml(`${head}Subject: Fwd\nContent-Type: multipart/related; boundary=x

--x
Content-Type: text/plain

See below.
--x
Content-Type: message/rfc822

From: Cy <cy@example.org>
Subject: Keys
Content-Type: text/plain

They are at the door.
--x
Content-Type: text/calendar

BEGIN:VCALENDAR
--x
Content-Type: image/png; name=logo.png
Content-ID: <logo>

x
--x--
`);
    expect(body).to.match(/See below\..*Cy.*Keys.*They are at the door\..*\n\n- text\/calendar \(1 KiB\)$/s);
  });

  it('decodes the declared encoding', async () => {
    const type = 'Content-Type: text/plain; charset=koi8-r\nContent-Transfer-Encoding: 8bit\n\n';
    const bytes = Buffer.concat([Buffer.from(head + type), iconv.encode('Привет', 'koi8-r')]);
    expect(String((await parseEml({ bytes, fileName: 'a.eml' })).body)).to.match(/\n\nПривет$/);
  });

  it('keeps the subject of a mail without text, and returns an empty body for an empty mail', async () => {
    expect((await eml(`${head}Subject: Call me\n\n`)).body).to.match(/^# Call me\n\nFrom: /);
    expect((await eml(`${head}\n \n`)).body).to.equal('');
  });

  it('rejects encrypted mail as encrypted_document', async () => {
    const types = [
      'multipart/encrypted; protocol="application/pgp-encrypted"; boundary=x\n\n--x--',
      'application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n\nMIIB',
      'text/plain\n\n-----BEGIN PGP MESSAGE-----\n\nhQEM\n-----END PGP MESSAGE-----',
    ];
    for (const type of types)
      expect(await appErrorCode(eml(`${head}Content-Type: ${type}\n`)), type).to.equal('encrypted_document');
  });
});

describe('parseMsg', () => {
  it('renders an Outlook message like a mail', async () => {
    const { body, title } = await parseMsg(
      msg({
        '0037001F': utf16('Preise'),
        '0C1A001F': utf16('Ann Lee'),
        '0C1F001F': utf16('ann@example.org'),
        '10130102': Buffer.from('<html><meta charset="windows-1252"><p>Gr\xfc\xdfe</p></html>', 'latin1'),
        '1000001F': utf16('plain'),
      }),
    );
    expect(body).to.equal('# Preise\n\nFrom: Ann Lee <ann@example.org>\n\nGrüße');
    expect(title).to.equal('Preise');
  });

  it('rejects S/MIME as encrypted_document', async () => {
    const file = msg({ '001A001F': utf16('IPM.Note.SMIME'), '0037001F': utf16('Secret') });
    expect(await appErrorCode(Promise.resolve().then(() => parseMsg(file)))).to.equal('encrypted_document');
  });
});

async function eml(text: string) {
  return parseEml({ bytes: Buffer.from(text), fileName: 'a.eml' });
}

async function bodyOfHtml(html: string): Promise<string> {
  const { body } = await eml(`${head}Content-Type: text/html; charset=utf-8\n\n${html}`);
  return String(body).split('\n\n').slice(1).join('\n\n');
}

function utf16(text: string): Buffer {
  return Buffer.from(text, 'utf16le');
}

/** A message with these properties, by tag and type (MS-OXMSG). */
function msg(properties: Record<string, Buffer>) {
  const streams = Object.entries(properties).map(([tag, bytes]) => [`__substg1.0_${tag}`, bytes]);
  const bytes = compoundFile({ '__properties_version1.0': Buffer.alloc(32), ...Object.fromEntries(streams) });
  return { bytes, fileName: 'a.msg' };
}
