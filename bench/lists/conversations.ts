import { createHash } from 'node:crypto';
import { v5 as uuidv5 } from 'uuid';
import { accessKeysOfRow, type Visibility } from '../../src/domain/access/visibility.ts';
import { echoStates } from '../../src/domain/alignment/chat-state.ts';
import { seededRandom } from '../search/random.ts';
import { benchId, type Person, type Reader, type TableRow, zipf } from './dataroom.ts';
import { generateTexts } from './texts.ts';

export type Conversations = {
  orgId: string;
  people: Record<Reader, Person>;
  chatId: string;
  agents: { busy: string; idle: string };
  words: readonly string[];
  rows: Iterable<TableRow>;
};

type Circle = { visibility: Visibility; teamIds: string[]; authors: string[] };

const roundsPerChat = 10;
const agentCount = 50;
const newestAt = Date.parse('2026-11-01T00:00:00Z');
const twoYearsSeconds = 2 * 365 * 86_400;
/** Numbers of chats in each state, of a hundred chats; most stay on topic. */
const chatsByState = [74, 14, 4, 2, 4, 2];

/**
 * Generates conversations. Reader `all` is an administrator with access through the organization's and a team's keys;
 * the other readers are in a team with a tenth or a hundredth of the chats, or have ten chats of 100,000.
 */
export function generateConversations(options: { rounds: number; passwordHash: string; seed?: number }): Conversations {
  const random = seededRandom(options.seed ?? 1);
  const texts = generateTexts(random);
  const chats = Math.round(options.rounds / roundsPerChat);
  const orgId = benchId('organization');
  const user = (name: string): Person => ({ userId: benchId(`user ${name}`), email: `${name}@example.com` });
  const people = { all: user('all'), tenth: user('tenth'), hundredth: user('hundredth'), few: user('few') };
  const others = Array.from({ length: 20 }, (_, place) => user(`colleague-${place}`));
  const ids = (from: Person[]) => from.map(({ userId }) => userId);
  const crews: Record<string, string[]> = {
    everybody: ids([people.all, ...others.slice(0, 15)]),
    tenth: ids([people.tenth, ...others.slice(15, 18)]),
    hundredth: ids([people.hundredth, ...others.slice(18)]),
  };
  const circle = (name: string): Circle => ({
    visibility: 'team_level',
    teamIds: [benchId(`team ${name}`)],
    authors: crews[name] ?? [],
  });
  const [everybody, tenth, hundredth] = [circle('everybody'), circle('tenth'), circle('hundredth')];
  const personal: Circle = { visibility: 'personal', teamIds: [], authors: [people.few.userId] };
  const agents = Array.from({ length: agentCount }, (_, place) => benchId(`agent ${place}`));

  const circleOf = (place: number): Circle => {
    const share = place / chats;
    if (place < Math.max(1, chats * 0.0001)) return personal;
    if (share < 0.01) return hundredth;
    if (share < 0.11) return tenth;
    // Readable by a large team. The organization's key is not used, because it would also open the chats to reader
    // `few`.
    return everybody;
  };

  function* structure(): Generator<TableRow> {
    yield { table: 'organizations', row: { id: orgId, name: 'Bench', tier: 'max' } };
    for (const { userId, email } of [...Object.values(people), ...others]) {
      const { passwordHash } = options;
      yield { table: 'users', row: { id: userId, email, password_hash: passwordHash, display_name: email } };
      const isAdmin = userId === people.all.userId;
      yield { table: 'memberships', row: { user_id: userId, org_id: orgId, is_org_admin: isAdmin } };
    }
    for (const [name, members] of Object.entries(crews)) {
      const id = benchId(`team ${name}`);
      yield { table: 'teams', row: { id, org_id: orgId, name } };
      for (const userId of members) {
        yield { table: 'team_memberships', row: { org_id: orgId, team_id: id, user_id: userId } };
      }
    }
    for (const [place, id] of agents.entries()) {
      yield {
        table: 'agents',
        row: {
          ...{
            id,
            org_id: orgId,
            agent_name: `Agent ${place}`,
            agent_prompt: 'Be brief.',
            tags: [],
            chat_model: 'any',
          },
          ...{ temperature: 0, max_tokens: 100, enabled_tools: [], anchor_words: {}, visibility: 'org_level' },
          ...{ user_off_topic_streak_threshold: 3, user_on_topic_streak_threshold: 2, acl: [`org:${orgId}`] },
          ...{ source_draft_id: id, source_version_id: id, created_by: people.all.userId },
        },
      };
    }
  }

  function* chatRows(place: number): Generator<TableRow> {
    const { visibility, teamIds, authors } = circleOf(place);
    const [id, createdBy] = [chatIdOf(place), authors[zipf(random, authors.length)] ?? ''];
    const agentId = agents[zipf(random, agents.length)] ?? '';
    // Spread over two years in random order, so that each reader has both new and old chats.
    const startedMs = place === 0 ? newestAt : newestAt - random.below(twoYearsSeconds) * 1_000;
    const state = stateOf(random.below(100));
    const title = texts.name();
    const at = new Date(startedMs).toISOString();
    yield {
      table: 'chats',
      row: {
        ...{ id, org_id: orgId, agent_id: agentId, title, title_source: 'user', visibility, team_ids: teamIds },
        ...{
          acl: accessKeysOfRow({ orgId, createdBy, visibility, teamIds }),
          round_count: roundsPerChat,
          echo_state: state,
        },
        ...{ rag_enabled: false, created_by: createdBy, created_at: at, updated_at: at },
      },
    };
    yield {
      table: 'log_texts',
      row: { org_id: orgId, chat_id: id, round: 0, words: wordsOf(title.toLowerCase().split(/[ .]/)) },
    };
    for (let round = 1; round <= roundsPerChat; round += 1) {
      const [asked, told] = [texts.words(12), texts.words(40)];
      yield {
        table: 'rounds',
        row: {
          ...{
            org_id: orgId,
            chat_id: id,
            round,
            status: 'complete',
            user_content: asked.join(' '),
            assistant_reply: told.join(' '),
          },
          ...{ model: 'any', input_tokens: 900, completion_tokens: 60, cost_usd: 0.0002, latency_ms: 1_500 },
          ...{ started_at: at, finished_at: at, scored_at: at, ewma: 60 + random.below(40), alignment_score: 0.8 },
          ...{ echo_state: round === roundsPerChat ? state : 'stable' },
        },
      };
      yield { table: 'log_texts', row: { org_id: orgId, chat_id: id, round, words: wordsOf([...asked, ...told]) } };
    }
  }

  const wordsOf = (words: readonly string[]): string => [...new Set(words)].map((word) => `'${mark}${word}'`).join(' ');
  const mark = createHash('md5').update(orgId).digest('hex').slice(0, 6);

  function* rows(): Generator<TableRow> {
    yield* structure();
    for (let place = 0; place < chats; place += 1) yield* chatRows(place);
  }
  const named = { busy: agents[0] ?? '', idle: agents.at(-1) ?? '' };
  const chatId = chatIdOf(chats - 1);
  return { orgId, people, chatId, agents: named, words: texts.byFrequency, rows: rows() };
}

const chatIdOf = (place: number): string => uuidv5(`chat ${place}`, benchId('chats'));

function stateOf(percent: number): string {
  let below = 0;
  const found = echoStates.findIndex((_, place) => {
    below += chatsByState[place] ?? 0;
    return percent < below;
  });
  return echoStates[found] ?? 'stable';
}
