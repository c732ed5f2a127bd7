import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const path = join(process.env.DATA_DIR ?? '.', 'bare');

createServer(async (req, res) => {
  if (req.method === 'GET') return pipeline(createReadStream(path), res);
  const hash = createHash('sha256');
  const meter = new PassThrough().on('data', (piece) => hash.update(piece));
  await pipeline(req, meter, createWriteStream(path, { flush: true }));
  return res.end(hash.digest('hex'));
}).listen(Number(process.env.PORT), '127.0.0.1');
