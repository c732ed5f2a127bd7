import msgReader, { type FieldsData } from '@kenjiuno/msgreader';
import iconv from 'iconv-lite';
import { appError } from '#src/errors.ts';
import { decodeText, htmlEncoding } from '../decode-text.ts';
import type { DocumentParser } from '../parsed-document.ts';
import { addressText, refuseEncrypted, renderMail } from './mail.ts';

/** Outlook messages, and appointments, contacts and tasks by their subject and text. Attachments are only named. */
export const parseMsg: DocumentParser = ({ bytes }) => {
  const message = readMessage(bytes);
  if (message.error) throw appError('corrupt_document', { detail: `The message is damaged: ${message.error}.` });
  refuseEncrypted(/^content-type:\s*(.*)/im.exec(message.headers ?? '')?.[1]);
  if (/^IPM\.Note\.SMIME$/i.test(message.messageClass ?? '')) refuseEncrypted('application/pkcs7-mime');
  const recipients = (type: string) =>
    (message.recipients ?? [])
      .filter(({ recipType }) => recipType === type)
      .map(({ name, smtpAddress, email }) => addressText({ name, address: smtpAddress || email }))
      .filter(Boolean)
      .join(', ');
  const date = new Date(message.clientSubmitTime ?? message.messageDeliveryTime ?? '');
  return renderMail({
    subject: message.subject ?? '',
    from: addressText({ name: message.senderName, address: message.senderSmtpAddress || message.senderEmail }),
    to: recipients('to'),
    cc: recipients('cc'),
    date: Number.isNaN(date.getTime()) ? null : date.toISOString(),
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

/** Messages of old programs are in the code page that they name. */
function readMessage(bytes: Buffer): FieldsData {
  const reader = new msgReader.default(new Uint8Array(bytes).buffer);
  const message = reader.getFileData();
  const codePage = `cp${message.messageCodepage}`;
  if (!iconv.encodingExists(codePage)) return message;
  reader.parserConfig = { ansiEncoding: codePage };
  return reader.getFileData();
}

function decodeHtml(bytes: Buffer): string {
  return decodeText(bytes, htmlEncoding(bytes));
}
