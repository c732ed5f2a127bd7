/** For people who like the knex CLI; the product itself calls src/adapters/postgres/migrate.ts. */
export default {
  client: 'pg',
  connection: process.env.DATABASE_URL,
  migrations: { directory: './migrations', loadExtensions: ['.ts'], extension: 'ts' },
};
