import PostalMime, { type Address } from 'postal-mime';
import { decodeText, unicodeEncoding } from '../decode-text.ts';
import type { DocumentParser } from '../parsed-document.ts';
import { addressText, refuseEncrypted, renderMail } from './mail.ts';

/** Internet mail (RFC 5322): its HTML, else its text. Attachments are named and never opened. */
export const parseEml: DocumentParser = async ({ bytes }) => {
  // Only a text editor writes a mail in UTF-16; its headers are ASCII otherwise.
  const mail = await PostalMime.parse(unicodeEncoding(bytes) ? Buffer.from(decodeText(bytes)) : bytes);
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
      // Pictures in the text are part of it.
      .filter(({ related, mimeType }) => !(related && mimeType.startsWith('image/')))
      .map(({ filename, mimeType, content }) => ({ name: filename || mimeType, bytes: Buffer.byteLength(content) })),
  });
};

function namesOf(addresses: Address[]): string {
  return addresses
    .map((each) => (each.group ? `${each.name}: ${each.group.map(addressText).join(', ')}` : addressText(each)))
    .join(', ');
}
