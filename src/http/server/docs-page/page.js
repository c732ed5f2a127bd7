import { prefill } from './prefill.js';

/** The browser's globals; the types of this project are those of Node.js. @type {any} */
const { document, DataTransfer, Event, MutationObserver, SwaggerUIBundle } = globalThis;

/** The smallest PNG. */
const picture = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const text = '# Returns\n\nGoods can be returned within 30 days of delivery.\n\n# Shipping\n\nWe ship to Norway.\n';
/** Files for operations that require one. @type {Record<string, () => File>} */
const files = {
  uploadDocument: () => new File([text], 'returns.md', { type: 'text/markdown' }),
  uploadAvatar: () =>
    new File([Uint8Array.from(atob(picture), (c) => c.charCodeAt(0))], 'me.png', { type: 'image/png' }),
};

/** @param {{ url: string, basePath: string }} options */
export async function startPage({ url, basePath }) {
  const openApi = await (await fetch(url)).json();
  emptyOptionalFields(openApi);
  /** @type {string | undefined} */
  let accessToken;
  /** @type {string | undefined} */
  let refreshToken;

  async function get(/** @type {string} */ path) {
    if (accessToken === undefined) return undefined;
    const response = await fetch(`${basePath}${path}`, { headers: { authorization: `Bearer ${accessToken}` } });
    return response.ok ? response.json() : undefined;
  }

  /** Fills in an operation that was opened. */
  async function fill(/** @type {string} */ tag, /** @type {string} */ operationId) {
    const found = findOperation(openApi, operationId);
    if (found === undefined) return;
    const block = document.getElementById(`operations-${tag}-${operationId}`);
    block?.removeAttribute('data-prefilled');
    const { pathMethod, operation } = found;
    const { path, body } = await prefill(operation, get, { refresh_token: refreshToken });
    for (const parameter of resolvedParameters(pathMethod)) {
      const value = parameter.get('in') === 'path' ? path[parameter.get('name')] : undefined;
      if (value !== undefined) ui.specActions.changeParamByIdentity(pathMethod, parameter, value, false);
    }
    const isJson = Object.keys(operation.requestBody?.content ?? {})[0] === 'application/json';
    if (isJson && body !== undefined) {
      ui.oas3Actions.setRequestBodyValue({ value: JSON.stringify(body, null, 2), pathMethod });
    }
    block?.setAttribute('data-prefilled', '');
  }

  const resolvedParameters = (/** @type {string[]} */ pathMethod) =>
    ui.specSelectors.specResolvedSubtree(['paths', ...pathMethod, 'parameters']) ?? [];

  const show = (/** @type {any} */ original) => (/** @type {string[]} */ shown, /** @type {boolean} */ isShown) => {
    const result = original(shown, isShown);
    const [kind, tag = '', operationId = ''] = [shown].flat();
    if (kind === 'operations' && isShown && operationId !== '') void fill(tag, operationId);
    return result;
  };

  const authorize = (/** @type {any} */ original) => (/** @type {any} */ payload) => {
    accessToken = payload.bearer?.value;
    return original(payload);
  };

  const logout = (/** @type {any} */ original) => (/** @type {any} */ names) => {
    accessToken = undefined;
    return original(names);
  };

  /** Signs in with the tokens of an answer. */
  function responseInterceptor(/** @type {any} */ response) {
    const { access_token, refresh_token } = Object(response.obj ?? response.body);
    if (response.ok && access_token !== undefined) {
      refreshToken = refresh_token;
      ui.preauthorizeApiKey('bearer', access_token);
    }
    return response;
  }

  new MutationObserver(chooseFiles).observe(document.body, { childList: true, subtree: true });
  const ui = SwaggerUIBundle({
    spec: openApi,
    dom_id: '#reference',
    deepLinking: true,
    filter: true,
    tryItOutEnabled: true,
    defaultModelsExpandDepth: 0,
    responseInterceptor,
    plugins: [
      { wrapComponents: { operations: eachTagByItself } },
      resolveWithinOperation,
      { statePlugins: { auth: { wrapActions: { authorize, logout } }, layout: { wrapActions: { show } } } },
    ],
  });
}

function findOperation(/** @type {any} */ { paths }, /** @type {string} */ operationId) {
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (operation.operationId === operationId) return { pathMethod: [path, method], operation };
    }
  }
  return undefined;
}

/**
 * Gives the resolver of Swagger UI only what an operation refers to: it goes through the whole document for each
 * operation that is opened, which takes half a second.
 * @param {any} system
 */
function resolveWithinOperation({ fn: { resolveSubtree } }) {
  return {
    fn: {
      resolveSubtree: (/** @type {any} */ document, /** @type {string[]} */ at, /** @type {any} */ options) =>
        resolveSubtree(at[0] === 'paths' ? onlyOperation(document, at) : document, at, options),
    },
  };
}

function onlyOperation(/** @type {any} */ document, /** @type {string[]} */ [, path = '', method = '']) {
  const operation = document.paths[path]?.[method];
  /** @type {any} */
  const components = { schemas: {}, responses: {}, securitySchemes: document.components.securitySchemes };
  const pending = [JSON.stringify(operation ?? {})];
  for (const text of pending) {
    for (const [, kind = '', name = ''] of text.matchAll(/"#\/components\/(\w+)\/([\w.]+)"/g)) {
      if (components[kind][name] !== undefined) continue;
      components[kind][name] = document.components[kind][name];
      pending.push(JSON.stringify(components[kind][name]));
    }
  }
  return { ...document, paths: { [path]: { [method]: operation } }, components };
}

/** Leaves optional fields of forms empty, which Swagger UI would fill with what their patterns allow. */
function emptyOptionalFields(/** @type {any} */ { paths, components }) {
  for (const { requestBody } of Object.values(paths).flatMap((path) => Object.values(path))) {
    const { $ref } = requestBody?.content['multipart/form-data']?.schema ?? {};
    const { properties = {}, required = [] } = components.schemas[$ref?.split('/').at(-1)] ?? {};
    for (const [name, property] of Object.entries(properties)) {
      if (!required.includes(name) && property.default === undefined) property.examples ??= [''];
    }
  }
}

/**
 * Shows each tag by a list of its own: Swagger UI leaves out what is not on the screen of a list of 150 rows or more, so
 * that the browser's search would not find it.
 * @param {any} Operations
 * @param {any} system
 */
function eachTagByItself(Operations, { React }) {
  const ListOfTag = React.memo((/** @type {any} */ { tag, operations, isShown: _, ...props }) => {
    const taggedOperations = () => operations;
    return React.createElement(Operations, { ...props, specSelectors: { ...props.specSelectors, taggedOperations } });
  }, isSameList);
  return (/** @type {any} */ props) => {
    const { specSelectors, layoutSelectors } = props;
    const lists = specSelectors.taggedOperations().map((/** @type {any} */ _, /** @type {string} */ tag) => {
      const isShown = layoutSelectors.isShown(['operations-tag', tag], true);
      const alone = specSelectors
        .taggedOperations()
        .filter((/** @type {any} */ _, /** @type {string} */ of) => of === tag);
      return React.createElement(ListOfTag, { ...props, key: tag, tag, operations: alone, isShown });
    });
    return React.createElement('div', null, lists.valueSeq().toArray());
  };
}

/** The operations of a list are connected to the store by themselves. */
const isSameList = (/** @type {any} */ a, /** @type {any} */ b) =>
  a.isShown === b.isShown && a.operations.first() === b.operations.first();

/** Chooses a small file where an operation requires one. */
function chooseFiles() {
  for (const input of document.querySelectorAll('.opblock input[type=file]:not([data-chosen])')) {
    input.dataset.chosen = '';
    const operationId = input.closest('.opblock').id.split('-').at(-1);
    const file = files[operationId]?.();
    if (file === undefined) continue;
    const transfer = new DataTransfer();
    transfer.items.add(file);
    input.files = transfer.files;
    input.dispatchEvent(new Event('change', { bubbles: true }));
  }
}
