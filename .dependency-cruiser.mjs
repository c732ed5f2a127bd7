/**
 * Who may import whom. A folder boundary is a guarantee boundary: src is plain Node, workflows are deterministic,
 * activities may run twice, workers hold no logic. See docs/architecture.md.
 */
const values = { dependencyTypesNot: ['type-only'] };

/** `from` may only reach `to` (regular expressions over paths from the root); npm packages and builtins are ruled below. */
const only = (name, from, to, extra = {}) => ({
  name,
  severity: 'error',
  from: { path: from, ...extra.from },
  to: { path: '^(src|workflows|activities|workers|migrations|services|scripts|test|bench)/', pathNot: to, ...values },
});

const reserved = (name, packages, allowedFrom, to = {}) => ({
  name,
  severity: 'error',
  comment: `${packages} belongs to ${allowedFrom}`,
  from: { path: '^(src|workflows|activities|workers)/', pathNot: allowedFrom },
  to: { path: packages, ...to },
});

/** Files of a module that hold SQL. */
const sql = '(\\.(repository|model)|/store-audit/invariants/[^/]+)\\.ts$';

export default {
  forbidden: [
    { name: 'no-cycles', severity: 'error', comment: 'Not even of types.', from: {}, to: { circular: true } },
    { name: 'no-unresolved', severity: 'error', from: {}, to: { couldNotResolve: true } },
    {
      name: 'packages-declare-their-dependencies',
      severity: 'error',
      comment: 'The nearest package.json names every npm package that the code imports.',
      from: {},
      to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown'] },
    },
    {
      name: 'no-dev-dependencies-in-production',
      severity: 'error',
      from: {
        path: '^(src|workflows|activities|workers|migrations|services)/',
        pathNot: '([.-]test|/test-server)\\.ts$',
      },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'] },
    },

    {
      name: 'domain-imports-nothing',
      severity: 'error',
      comment: 'Not even types.',
      from: { path: '^src/domain/' },
      to: { pathNot: '^src/domain/' },
    },
    {
      name: 'contracts-are-pure',
      severity: 'error',
      from: { path: '^src/contracts/' },
      to: { dependencyTypes: ['npm', 'core'] },
    },
    only('contracts-import-nothing', '^src/contracts/', '^src/contracts/'),
    only('ports-import-nothing', '^src/ports/', '^src/ports/'),
    only('errors-import-nothing', '^src/errors\\.ts$', '^$'),
    only('temporary-folders-import-nothing', '^src/temporary-folders\\.ts$', '^$'),
    only('http-knows-no-module', '^src/http/', '^src/(http|errors|contracts|domain|config/read-settings\\.ts$)'),
    {
      name: 'a-module-keeps-to-itself',
      severity: 'error',
      comment: "Another module is used through its service's type, handed in by the container.",
      from: { path: '^src/modules/([^/]+)/', pathNot: [sql, '\\.schema\\.ts$'] },
      to: { path: '^src/modules/', pathNot: '^src/modules/$1/', ...values },
    },
    {
      name: 'a-schema-builds-only-on-the-schemas-of-another',
      severity: 'error',
      comment: 'A request may take what a request of another module takes.',
      from: { path: '^src/modules/([^/]+)/.*\\.schema\\.ts$' },
      to: { path: '^src/modules/', pathNot: ['^src/modules/$1/', '\\.schema\\.ts$'], ...values },
    },
    {
      name: 'a-module-reads-only-the-tables-of-another',
      severity: 'error',
      comment: 'Joins and relations may name the models of other modules, and nothing else of them.',
      from: { path: `^src/modules/([^/]+)/.*${sql}` },
      to: { path: '^src/modules/', pathNot: ['^src/modules/$1/', '\\.model\\.ts$'], ...values },
    },
    {
      name: 'a-module-reads-only-the-service-type-of-another',
      severity: 'error',
      from: { path: '^src/modules/([^/]+)/', pathNot: sql },
      to: { path: '^src/modules/', pathNot: ['^src/modules/$1/', '\\.(service|schema)\\.ts$'] },
    },
    only('modules', '^src/modules/', '^src/(modules|contracts|domain|ports|errors|temporary-folders)', {
      from: { pathNot: ['\\.(schema|routes)\\.ts$', sql] },
    }),
    only(
      'schemas',
      '^src/modules/.*\\.schema\\.ts$',
      '^src/(modules|contracts|domain|ports|errors|http/(request/fields|shared-schemas)\\.ts)',
    ),
    only('routes', '^src/modules/.*\\.routes\\.ts$', '^src/(modules|contracts|domain|ports|errors|http)'),
    only('repositories', `^src/modules/.*${sql}`, '^src/(modules|contracts|domain|ports|errors|adapters/postgres)'),
    only('adapters', '^src/adapters/', '^src/(adapters|contracts|domain|errors|temporary-folders)'),
    {
      name: 'adapters-keep-apart',
      severity: 'error',
      from: { path: '^src/adapters/([^/]+)/' },
      to: {
        path: '^src/adapters/',
        pathNot: ['^src/adapters/$1/', '^src/adapters/postgres/', '^src/adapters/[^/]+\\.ts$'],
        ...values,
      },
    },
    only('temporal-door', '^src/temporal/', '^src/(temporal|contracts|errors)'),
    only('workflows', '^workflows/', '^(workflows|src/(contracts|domain))/'),
    only('activities', '^activities/', '^(activities/|src/(contracts/|domain/|errors))'),
    only(
      'workers',
      '^workers/',
      '^(workers/|activities/|src/(container|config|contracts/|errors|temporal/|temporary-folders|http/server/http-server))',
    ),
    {
      name: 'src-imports-only-src',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(workflows|activities|workers)/', ...values },
    },
    {
      name: 'the-product-imports-no-other-package',
      severity: 'error',
      comment: 'Not even types.',
      from: { path: '^(src|workflows|activities|workers|migrations)/' },
      to: { path: '^(services|scripts|bench|test)/' },
    },
    {
      name: 'services-stand-alone',
      severity: 'error',
      from: { path: '^services/([^/]+)/' },
      to: {
        path: '^(src|workflows|activities|workers|migrations|services|scripts|bench|test)/',
        pathNot: '^services/$1/',
      },
    },
    {
      name: 'the-supervisor-stands-alone',
      severity: 'error',
      from: { path: '^scripts/supervisor/' },
      to: {
        path: '^(src|workflows|activities|workers|migrations|services|scripts|bench|test)/',
        pathNot: '^scripts/supervisor/',
      },
    },
    { name: 'bench-imports-no-tests', severity: 'error', from: { path: '^bench/' }, to: { path: '^test/' } },
    {
      name: 'scripts-import-no-tests',
      severity: 'error',
      comment: "Only the test runners and the connector demo use the tests' stand-ins for providers and models.",
      from: { path: '^scripts/', pathNot: '^scripts/(test/|test-schema|demo-connectors|demo/connector-story)' },
      to: { path: '^test/' },
    },
    {
      name: 'workflows-use-only-the-workflow-library',
      severity: 'error',
      from: { path: '^workflows/' },
      to: { dependencyTypes: ['npm', 'core'], pathNot: 'node_modules/@temporalio/(workflow|common)/', ...values },
    },

    // Repositories and services pass the type `Knex` on: a database or a transaction in it.
    reserved('knex', 'node_modules/knex/', '^src/adapters/postgres/', values),
    reserved('pg', 'node_modules/pg/', '^src/adapters/postgres/'),
    reserved('pgvector', 'node_modules/pgvector/', '^src/adapters/(postgres|vectors)/'),
    reserved('objection', 'node_modules/objection/', '^src/(adapters/postgres/|modules/.*\\.(model|repository)\\.ts$)'),
    reserved('prometheus', 'node_modules/prom-client/', '^src/adapters/telemetry/'),
    reserved('opentelemetry', 'node_modules/@opentelemetry/', '^src/adapters/telemetry/'),
    reserved('qdrant', 'node_modules/@qdrant/', '^src/adapters/vectors/'),
    reserved('openai', 'node_modules/openai/', '^src/adapters/models/'),
    reserved('express', 'node_modules/express/', '^src/(http/|app\\.ts|server\\.ts)'),
    reserved('passport', 'node_modules/(@types/)?passport/', '^src/(http/request/authentication\\.ts|adapters/oauth/)'),
    reserved('fast-jwt', 'node_modules/fast-jwt/', '^src/adapters/tokens/'),
    reserved('temporal-client', 'node_modules/@temporalio/client/', '^src/temporal/'),
    reserved('temporal-worker', 'node_modules/@temporalio/worker/', '^(workers|activities)/'),
    {
      name: 'src-does-not-know-temporal',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/temporal/' },
      to: { path: 'node_modules/@temporalio/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: 'node_modules/\\.cache' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      mainFields: ['main', 'types'],
      extensions: ['.ts', '.mjs', '.js', '.json'],
    },
    cache: { folder: 'node_modules/.cache/dependency-cruiser', strategy: 'content' },
  },
};
