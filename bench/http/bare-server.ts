import { createServer } from 'node:http';
import pg from 'pg';
import { profileQuery } from './profile-query.ts';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: Number(process.env.DATABASE_POOL_SIZE) });

createServer(async (req, res) => {
  const { rows } = await pool.query(profileQuery, [req.url?.slice(1)]);
  const body = JSON.stringify(rows[0]);
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }).end(body);
}).listen(Number(process.env.PORT), '127.0.0.1');
