/** The header of a binary PGM as pdf_child.py writes it: width, height and the value of white. */
const header = /^P5\n(\d+) (\d+)\n255\n/;
const headerBytes = 32;

/** PGM images that come one after the other, whole; null for one without pixels. */
export async function* readGreyMaps(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer | null> {
  let pending: Buffer[] = [];
  let length = 0;
  let wanted: number | undefined;
  for await (const chunk of input) {
    pending.push(chunk);
    length += chunk.length;
    for (;;) {
      wanted ??= lengthOf(pending);
      if (wanted === undefined || length < wanted) break;
      const received = Buffer.concat(pending);
      const isEmpty = header.exec(received.toString('latin1', 0, headerBytes))?.[0].length === wanted;
      yield isEmpty ? null : received.subarray(0, wanted);
      pending = [received.subarray(wanted)];
      length = received.length - wanted;
      wanted = undefined;
    }
  }
}

/** Of the image whose first bytes these are; undefined while its header is not whole. */
function lengthOf(pending: Buffer[]): number | undefined {
  const head = Buffer.concat(pending.slice(0, 2)).toString('latin1', 0, headerBytes);
  const [text, width, height] = header.exec(head) ?? [];
  return text === undefined ? undefined : text.length + Number(width) * Number(height);
}
