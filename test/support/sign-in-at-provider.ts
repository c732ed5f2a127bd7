/**
 * Goes through the provider's forms as a browser would, with a cookie jar of its own.
 * @param options.consents false: cancels at the consent
 * @returns the URL to which the provider redirects the browser; it is not requested
 */
export async function signInAtProvider(
  authorizationUrl: string,
  { login, password }: { login: string; password: string },
  { consents = true }: { consents?: boolean } = {},
): Promise<URL> {
  const { origin } = new URL(authorizationUrl);
  const cookies = new Map<string, string>();
  let url = new URL(authorizationUrl);
  let form: Record<string, string> | null = null;
  while (url.origin === origin) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const sent = form && { method: 'POST', body: new URLSearchParams(form) };
    const response: Response = await fetch(url, { headers: { cookie }, redirect: 'manual', ...sent });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    const page = await response.text();
    let next = response.headers.get('location');
    form = null;
    if (next === null) {
      const step = page.includes('/login"') ? 'login' : consents ? 'consent' : 'cancel';
      next = new RegExp(`<form method="post" action="([^"]+/${step})"`).exec(page)?.[1] ?? null;
      form = step === 'login' ? { login, password } : {};
    }
    if (next === null) throw new Error(`the provider shows ${response.status} ${page}`);
    url = new URL(next, url);
  }
  return url;
}
