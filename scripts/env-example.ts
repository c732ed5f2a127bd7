const WIDTH = 112;
/**
 * Sections of docs/settings.md that .env.example leaves out: settings that `npm start` generates or that only tests
 * use.
 */
const LEFT_OUT = ['Ports of the embedded services', 'Limits of a document that are no settings', 'For tests'];

const INTRODUCTION = `# Settings of docker-compose.yml and of the service. Copied to .env, and completed by
#   docker build --tag agent-conversation-service:local .
#   docker run --rm agent-conversation-service:local node scripts/make-secrets.ts >> .env
# it is all that \`docker compose up\` needs. Made from docs/settings.md by \`npm run docs\`; do not edit by hand.
#
# Values stand as they are, without quotes; a # that begins a line leaves it out. Settings whose default names an
# embedded service have the address of the one in docker-compose.yml instead.

# ---- docker-compose.yml itself

# The image of the service's own processes.
#IMAGE=agent-conversation-service:local

# Where this machine has the API, the Temporal UI and the store of the originals. PUBLIC_URL, TEMPORAL_UI_URL and
# S3_ENDPOINT say where clients find them, when that is elsewhere.
#API_PORT=3000
#TEMPORAL_UI_PORT=8233
#S3_PORT=7070

# Cores of each worker that reads documents, and its memory: 2 GB for a core, and half a GB.
#INGESTION_CPUS=2
#INGESTION_MEMORY=4608m

# Where browsers ask for payloads that are encrypted, with \`--profile codec\`.
#TEMPORAL_CODEC_ENDPOINT=http://127.0.0.1:8234

# Of the two databases. make-secrets.ts makes them, and QDRANT_API_KEY, S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, which
# both sides of those services get. The databases keep the one that they were made with.
#POSTGRES_PASSWORD=
#TEMPORAL_POSTGRES_PASSWORD=
`;

export function envExample(settingsPage: string): string {
  const sections = settingsPage.split(/^## /m).slice(1);
  const texts = sections
    .map((section) => ({ title: section.slice(0, section.indexOf('\n')), rows: rowsOf(section) }))
    .filter(({ title, rows }) => rows.length > 0 && !LEFT_OUT.includes(title))
    .map(({ title, rows }) => `# ---- ${title}\n\n${rows.map(entryOf).join('\n\n')}\n`);
  return [INTRODUCTION, ...texts].join('\n');
}

function rowsOf(section: string): string[][] {
  return section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .slice(1, -1)
        .split(' | ')
        .map((cell) => cell.trim()),
    );
}

function entryOf([names = '', ...cells]: string[]): string {
  const meaning = cells.pop() ?? '';
  const [standard] = cells;
  const said = [meaning, standard !== undefined && standard !== 'none' ? `Default: ${standard}` : '']
    .filter(Boolean)
    // Only a lower-case word becomes capitalized, because a value must stay as it is written.
    .map((sentence) => plain(sentence.replace(/^[a-z]+ /, (word) => `${word[0]?.toUpperCase()}${word.slice(1)}`)))
    .map((sentence) => `${sentence.replace(/\.$/, '')}.`);
  const assignments = [...names.matchAll(/`([A-Z][A-Z0-9_]*)`/g)].map(([, name]) => `#${name}=`);
  return [...wrapped(said.join(' ')), ...assignments].join('\n');
}

function plain(text: string): string {
  return text.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1').replaceAll('`', '');
}

function wrapped(text: string): string[] {
  const lines = [];
  let line = '#';
  for (const word of text.split(' ')) {
    if (line.length + 1 + word.length > WIDTH && line !== '#') {
      lines.push(line);
      line = '#';
    }
    line += ` ${word}`;
  }
  return text === '' ? [] : [...lines, line];
}
