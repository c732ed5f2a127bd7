/**
 * Goes through the provider's forms as a browser would, with a cookie jar of its own.
 * @param options.consents false: cancels at the consent
 * @returns the address to which the provider sends the browser back; it is not asked for
 */
export async function signInAtProvider(
  authorizationUrl: string,
  account: { login: string; password: string },
  { consents = true }: { consents?: boolean } = {},
): Promise<URL> {
  const { origin } = new URL(authorizationUrl);
  const cookies = new Map<string, string>();

  /** Follows redirects as long as they stay at the site. `page` is null for an address of another site. */
  async function open(
    address: string,
    form?: URLSearchParams,
  ): Promise<{ url: URL; status: number; page: string | null }> {
    const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };
    const init: RequestInit = { headers, redirect: 'manual', ...(form && { method: 'POST', body: form }) };
    const response = await fetch(address, init);
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    const { status } = response;
    const page = await response.text();
    const location = response.headers.get('location');
    if (location === null) return { url: new URL(address), status, page };
    const next = new URL(location, address);
    return next.origin === origin ? open(next.href) : { url: next, status, page: null };
  }

  let at = await open(authorizationUrl);
  while (at.page !== null) {
    const { page } = at;
    const step = ['login', 'consent'].find((name) => page.includes(`/${name}"`));
    if (at.status !== 200 || step === undefined) throw new Error(`the provider shows ${at.status} ${page}`);
    const button = step === 'consent' && !consents ? 'cancel' : step;
    const action = new RegExp(`<form method="post" action="([^"]+/${button})"`).exec(page)?.[1];
    if (action === undefined) throw new Error(`the provider's page has no form to ${button}: ${page}`);
    const form = step === 'login' ? { login: account.login, password: account.password } : {};
    at = await open(new URL(action, at.url).href, new URLSearchParams(form));
  }
  return at.url;
}
