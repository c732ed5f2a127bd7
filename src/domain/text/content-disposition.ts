/**
 * Content-Disposition headers of files (RFC 6266): an ASCII file name for old clients, and the real name in UTF-8.
 */
export const attachmentContentDisposition = (fileName: string): string => `attachment; ${fileNames(fileName)}`;

/** Browsers open the file in place of storing it. */
export const inlineContentDisposition = (fileName: string): string => `inline; ${fileNames(fileName)}`;

function fileNames(fileName: string): string {
  const plain = fileName.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(fileName).replaceAll(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  return `filename="${plain}"; filename*=UTF-8''${encoded}`;
}
