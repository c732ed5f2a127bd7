import msgReader, { type FieldsData } from '@kenjiuno/msgreader';
import iconv from 'iconv-lite';
import type { HTMLElement } from 'linkedom';
import PostalMime, { type Address } from 'postal-mime';
import { appError } from '#src/errors.ts';
import { decodeText, detectUnicodeEncoding, findDeclaredEncoding, guessEncoding } from '../decode-text.ts';
import { htmlToMarkdown, parseHtmlPage } from '../html-to-markdown.ts';
import { removeNavigationAndBanners } from '../page-navigation.ts';
import type { DocumentParser, ParsedDocument } from '../parsed-document.ts';

/** How far behind the header of an HTML part its charset is looked for. */
const charsetWithin = 8_192;
const mailboxSeparator = /^From \S.*\d{4}\r?\n(?=[!-9;-~]+:)/m;
const appleMailLength = /^\d+\s*\n(?=[!-9;-~]+:)/;

/**
 * Reads Internet mail (RFC 5322): its HTML, or its text if it has none. Attachments are listed but never opened. Also
 * reads a mailbox (mbox), each mail as a page, and a mail of Apple Mail (.emlx).
 */
export const parseEml: DocumentParser = async ({ bytes }) => {
  // Some text editors save a mail as UTF-16, which PostalMime does not read.
  const whole = detectUnicodeEncoding(bytes) ? Buffer.from(decodeText(bytes)) : bytes;
  const text = whole.toString('latin1');
  const [lengthLine] = appleMailLength.exec(text) ?? [];
  if (lengthLine !== undefined) {
    return readMail(whole.subarray(lengthLine.length, lengthLine.length + Number.parseInt(lengthLine, 10)));
  }
  // A mail that was cut off within its headers is left out.
  const mails = text.split(new RegExp(mailboxSeparator, 'gm')).filter((mail) => /\n\r?\n/.test(mail));
  if (mails.length < 2) return readMail(mails[0] === undefined ? whole : Buffer.from(mails[0], 'latin1'));
  const pages: string[] = [];
  for (const mail of mails) {
    const { body } = await readMail(Buffer.from(mail.replace(/^>(>*From )/gm, '$1'), 'latin1'));
    pages.push(typeof body === 'string' ? body : body.join('\n\n'));
  }
  return { body: pages, title: null };
};

async function readMail(bytes: Buffer): Promise<ParsedDocument> {
  const declared = withDeclaredCharsets(bytes);
  const mail = await PostalMime.parse(declared);
  const isDamaged = (text: string | undefined) => text?.includes('\ufffd') === true;
  if (isDamaged(mail.html) || isDamaged(mail.text)) {
    const { html = '', text = '' } = await PostalMime.parse(withoutUtf8Charsets(declared));
    if (isDamaged(mail.html)) mail.html = decodeHtml(bytesOfSingleByteText(html));
    if (isDamaged(mail.text)) mail.text = decodeText(bytesOfSingleByteText(text));
  }
  refuseEncrypted(mail.headers.find(({ key }) => key === 'content-type')?.value);
  return renderMail({
    subject: mail.subject ?? '',
    from: mail.from ? namesOf([mail.from]) : '',
    to: namesOf(mail.to ?? []),
    cc: namesOf(mail.cc ?? []),
    date: mail.date ?? null,
    html: mail.html ?? '',
    text: mail.text ?? '',
    attachments: mail.attachments
      .filter(({ related, mimeType }) => !(related && mimeType.startsWith('image/')))
      .map(({ filename, mimeType, content }) => ({ name: filename || mimeType, bytes: Buffer.byteLength(content) })),
  });
}

/** Saved web pages (MHTML) often declare the charset of a part only in its HTML, where PostalMime does not look. */
function withDeclaredCharsets(bytes: Buffer): Buffer {
  const text = bytes.toString('latin1');
  const headers = /^(content-type:\s*text\/html)(?![^\r\n]*charset)(?!;\s*\r?\n\s+charset)/gim;
  const marked = text.replace(headers, (header, _start, at: number) => {
    const [, charset] = /<meta[^>]+charset=(?:3D)?["']?([\w-]+)/i.exec(text.slice(at, at + charsetWithin)) ?? [];
    return charset === undefined ? header : `${header}; charset="${charset}"`;
  });
  return marked === text ? bytes : Buffer.from(marked, 'latin1');
}

/** Has text parts that are not in UTF-8, although they say so or say nothing, decoded byte by byte. */
function withoutUtf8Charsets(bytes: Buffer): Buffer {
  const textPart = /^content-type:[ \t]*text\/(?:plain|html)[^\r\n]*(?:\r?\n[ \t][^\r\n]*)*/gim;
  const other = /\bcharset[ \t]*=[ \t]*"?(?!utf-?8|us-ascii)\w/i;
  const utf8 = /;\s*charset[ \t]*=[ \t]*"?[\w-]*"?/i;
  const text = bytes.toString('latin1').replace(textPart, (header) => {
    return other.test(header) ? header : `${header.replace(utf8, '').trimEnd()}; charset="${singleByteCharset}"`;
  });
  return Buffer.from(/^content-type:/im.test(text) ? text : `${singleByteType}\r\n${text}`, 'latin1');
}

const singleByteCharset = 'windows-1252';
const singleByteType = `Content-Type: text/plain; charset="${singleByteCharset}"`;
const singleByteLetters = new TextDecoder(singleByteCharset).decode(
  Uint8Array.from({ length: 256 }, (_, byte) => byte),
);

/** Letters of parts in other charsets are lost, which a mail with a damaged part hardly has. */
function bytesOfSingleByteText(text: string): Buffer {
  const bytes = Buffer.alloc(text.length, '?');
  for (let index = 0; index < text.length; index += 1) {
    const byte = singleByteLetters.indexOf(text.charAt(index));
    if (byte >= 0) bytes[index] = byte;
  }
  return bytes;
}

function namesOf(addresses: Address[]): string {
  return addresses
    .map((each) => (each.group ? `${each.name}: ${each.group.map(addressText).join(', ')}` : addressText(each)))
    .join(', ');
}

/** Reads Outlook messages, contacts and appointments. Lists attachments without opening them. */
export const parseMsg: DocumentParser = ({ bytes }) => {
  const message = readMessage(bytes);
  if (message.error) throw appError('corrupt_document', { detail: `The message is damaged: ${message.error}.` });
  refuseEncrypted(/^content-type:\s*(.*)/im.exec(message.headers ?? '')?.[1]);
  if (/^IPM\.Note\.SMIME$/i.test(message.messageClass ?? '')) refuseEncrypted('application/pkcs7-mime');
  const recipients = (type: string) =>
    (message.recipients ?? [])
      .filter(({ recipType }) => recipType === type)
      .map(({ name, smtpAddress, email }) => addressText({ name, address: internetAddress(smtpAddress, email) }))
      .filter(Boolean)
      .join(', ');
  const date = new Date(message.clientSubmitTime ?? message.messageDeliveryTime ?? '');
  const { senderSmtpAddress, sentRepresentingSmtpAddress, creatorSMTPAddress, senderEmail } = message;
  const sender = internetAddress(senderSmtpAddress, sentRepresentingSmtpAddress, creatorSMTPAddress, senderEmail);
  return renderMail({
    subject: message.subject ?? '',
    from: addressText({ name: message.senderName, address: sender }),
    to: recipients('to'),
    cc: recipients('cc'),
    date: Number.isNaN(date.getTime()) ? null : date.toISOString(),
    facts: itemFacts(message),
    html: message.html ? decodeHtml(Buffer.from(message.html)) : (message.bodyHtml ?? ''),
    text: message.body ?? '',
    attachments: (message.attachments ?? [])
      .filter(({ attachmentHidden }) => !attachmentHidden)
      .map(({ fileName, name, contentLength }) => ({
        name: fileName || name || 'unnamed',
        bytes: contentLength ?? null,
      })),
  });
};

/** The first address that is no X.500 name of Exchange (`/o=Example/ou=…`). */
function internetAddress(...addresses: (string | undefined)[]): string {
  return addresses.find((address) => address && !/^\/o=/i.test(address)) ?? '';
}

/** The fields of a contact or an appointment, in the order in which Outlook shows them. */
function itemFacts(item: FieldsData): [label: string, value: string | undefined][] {
  const time = (text: string | undefined) => {
    const date = new Date(text ?? '');
    return Number.isNaN(date.getTime()) ? undefined : timeText(date.toISOString());
  };
  return [
    ['Start', time(item.apptStartWhole)],
    ['End', time(item.apptEndWhole)],
    ['Location', item.apptLocation ?? item.location],
    ['Company', item.companyName],
    ['Department', item.departmentName ?? item.department],
    ['Job title', item.title],
    ['Email', item.email1EmailAddress],
    ['Business phone', item.businessTelephoneNumber],
    ['Home phone', item.homeTelephoneNumber],
    ['Mobile phone', item.mobileTelephoneNumber],
    ['Fax', item.businessFaxNumber],
    ['Address', item.workAddress ?? item.postalAddress],
    ['Web page', item.businessHomePage],
  ];
}

/** A message that is not in Unicode is in a code page, which it states or which its text shows. */
function readMessage(bytes: Buffer): FieldsData {
  const message = readFields(bytes, 'latin1');
  const text = [message.subject, message.senderName, message.body].join('\n');
  if (!/[\x80-\xff]/.test(text)) return message;
  const stated = [message.messageCodepage, message.internetCodepage].map((page) => `cp${page}`);
  return readFields(bytes, stated.find(iconv.encodingExists) ?? guessEncoding(Buffer.from(text, 'latin1')));
}

function readFields(bytes: Buffer, ansiEncoding: string): FieldsData {
  // The reader keeps what it has read, so each encoding needs a new one.
  const reader = new msgReader.default(new Uint8Array(bytes).buffer);
  reader.parserConfig = { ansiEncoding };
  return reader.getFileData();
}

function decodeHtml(bytes: Buffer): string {
  return decodeText(bytes, findDeclaredEncoding(bytes));
}

const invisibleElements = 'script, style, noscript, template, svg, iframe, title, [hidden]';
const hidingStyle = /display\s*:\s*none|visibility\s*:\s*hidden/i;

/** Converts the HTML of a mail or a saved page without hidden elements (such as preview lines), menus and layout tables. */
function mailHtmlToMarkdown(html: string): string {
  const { body } = parseHtmlPage(html);
  for (const element of body.querySelectorAll(invisibleElements)) element.remove();
  for (const element of body.querySelectorAll('[style]'))
    if (hidingStyle.test(element.getAttribute('style') ?? '')) element.remove();
  removeNavigationAndBanners(body);
  for (const table of body.querySelectorAll('table')) if (isLayout(table)) unwrapTable(table);
  return htmlToMarkdown(body.innerHTML).trim();
}

/** A layout table has the role `presentation`, contains other tables, or has at most one cell per row. */
function isLayout(table: HTMLElement): boolean {
  if (table.getAttribute('role') === 'presentation' || table.querySelector('table')) return true;
  return [...table.querySelectorAll('tr')].every((row) => row.querySelectorAll('td, th').length <= 1);
}

function unwrapTable(table: HTMLElement): void {
  const cells = [...table.querySelectorAll('td, th')].filter((cell) => cell.closest('table') === table);
  const blocks = cells.map((cell) => {
    const block = table.ownerDocument.createElement('div');
    block.append(...cell.childNodes);
    return block;
  });
  table.replaceWith(...blocks);
}

type Mail = {
  subject: string;
  from: string;
  to: string;
  cc: string;
  date: string | null;
  /** Further lines of the head. */
  facts?: [label: string, value: string | undefined][];
  html: string;
  text: string;
  /** `bytes` is null when an attachment's size is unknown, such as that of an attached message. */
  attachments: { name: string; bytes: number | null }[];
};

const encryptedTypes = /^(?:multipart\/encrypted|application\/(?:x-)?pkcs7-mime)\b/i;
const encryptedText = /^\s*-----BEGIN PGP MESSAGE-----/;

function renderMail(mail: Mail): ParsedDocument {
  if (encryptedText.test(mail.text)) throw encryptedMail();
  const content = mailHtmlToMarkdown(mail.html) || mail.text.trim();
  const attachments = mail.attachments.map(({ name, bytes }) => `- ${oneLine(name)}${sizeText(bytes)}`);
  const subject = oneLine(mail.subject);
  if (!subject && !content && attachments.length === 0 && !mail.facts?.some(([, value]) => value))
    return { body: '', title: null };
  const head = [
    ['From', mail.from],
    ['To', mail.to],
    ['Cc', mail.cc],
    ['Date', mail.date && timeText(mail.date)],
    ...(mail.facts ?? []),
  ].flatMap(([label, value]) => (value ? [`${label}: ${oneLine(value)}`] : []));
  const parts = [
    subject && `# ${subject}`,
    head.join('\n'),
    content,
    attachments.length > 0 && `Attachments:\n\n${attachments.join('\n')}`,
  ];
  return { body: parts.filter(Boolean).join('\n\n'), title: subject || null };
}

function timeText(isoTime: string): string {
  return isoTime.replace(/T(\d\d:\d\d).*/, ' $1 UTC');
}

function refuseEncrypted(contentType: string | undefined): void {
  if (contentType && encryptedTypes.test(contentType)) throw encryptedMail();
}

function addressText({ name, address }: { name?: string | undefined; address?: string | undefined }): string {
  return name && address && name !== address ? `${name} <${address}>` : name || address || '';
}

function encryptedMail() {
  return appError('encrypted_document', {
    detail: 'The message is encrypted; open it in the mail program and upload its text or its attachments.',
  });
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

function sizeText(bytes: number | null): string {
  if (bytes === null) return '';
  const kibibytes = Math.max(1, Math.round(bytes / 1024));
  return kibibytes < 1024 ? ` (${kibibytes} KiB)` : ` (${(kibibytes / 1024).toFixed(1)} MiB)`;
}
