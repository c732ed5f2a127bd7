import type { FileHandle } from 'node:fs/promises';
import { type AppError, appError } from '#src/errors.ts';

/** The first bytes of a compound file: old Office documents, Outlook mail, and encrypted new Office documents. */
export const compoundFileSignature = Buffer.from('d0cf11e0a1b11ae1', 'hex');

const headerBytes = 512;
/** Sector numbers above this one end a chain. */
const lastSector = 0xfffffffa;
const entryBytes = 128;
/** A message with thousands of attachments has one of a few megabytes. */
const mostDirectoryBytes = 16 * 1024 ** 2;

/**
 * The names of what lies at the root of a compound file (MS-CFB), which tell what wrote it. Only its directory is read;
 * what lies in storages below, such as a workbook inside a Word document, is not looked at.
 * @throws AppError corrupt_document when the directory is not whole
 */
export async function listCompoundRoot(file: FileHandle): Promise<string[]> {
  const { size } = await file.stat();
  const header = await readAt(file, 0, headerBytes);
  const sectorBytes = 2 ** header.readUInt16LE(30);
  if (sectorBytes !== 512 && sectorBytes !== 4096) throw damaged();
  const readSector = (sector: number) => readAt(file, (sector + 1) * sectorBytes, sectorBytes);
  const tables = await listAllocationTables(header, size / sectorBytes, readSector);

  const sectors: Buffer[] = [];
  let sector = header.readUInt32LE(48);
  while (sector < lastSector) {
    if (sectors.length * sectorBytes >= Math.min(size, mostDirectoryBytes)) throw damaged();
    sectors.push(await readSector(sector));
    const perTable = sectorBytes / 4;
    const table = tables[Math.floor(sector / perTable)];
    if (table === undefined) throw damaged();
    const next = await readAt(file, (table + 1) * sectorBytes + (sector % perTable) * 4, 4);
    sector = next.readUInt32LE();
  }
  return namesOfRoot(Buffer.concat(sectors));
}

/** Where the parts of the allocation table are: the first 109 in the header, the others in a chain of lists. */
async function listAllocationTables(
  header: Buffer,
  sectorCount: number,
  readSector: (sector: number) => Promise<Buffer>,
): Promise<number[]> {
  const tables = numbers(header.subarray(76));
  for (let sector = header.readUInt32LE(68); sector < lastSector; ) {
    if (tables.length > sectorCount) throw damaged();
    const list = numbers(await readSector(sector));
    sector = list.pop() ?? lastSector;
    tables.push(...list);
  }
  return tables;
}

/** The entries of a storage are a tree of siblings below its first child. */
function namesOfRoot(directory: Buffer): string[] {
  const names: string[] = [];
  const seen = new Set<number>();
  const pending = [directory.length < entryBytes ? lastSector : directory.readUInt32LE(76)];
  for (let index = pending.pop(); index !== undefined; index = pending.pop()) {
    const entry = directory.subarray(index * entryBytes, (index + 1) * entryBytes);
    if (entry.length < entryBytes || seen.has(index)) continue;
    seen.add(index);
    // With the NUL at its end.
    const nameBytes = Math.min(64, entry.readUInt16LE(64));
    names.push(entry.toString('utf16le', 0, Math.max(0, nameBytes - 2)));
    pending.push(entry.readUInt32LE(68), entry.readUInt32LE(72));
  }
  return names;
}

function numbers(bytes: Buffer): number[] {
  return Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readUInt32LE(index * 4));
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position);
  if (bytesRead < length) throw damaged();
  return buffer;
}

function damaged(): AppError {
  return appError('corrupt_document', { detail: 'The file is damaged or cut off: its directory cannot be read.' });
}
