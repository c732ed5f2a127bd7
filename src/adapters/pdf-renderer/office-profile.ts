import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * What LibreOffice may not do with a file that nobody vouches for: run its macros, and fetch what it links to, be that
 * on the web or on our disk. The proxy is a port on which nobody listens, for whatever would ask all the same.
 */
const settings: [path: string, name: string, value: string][] = [
  ['Office.Common/Security/Scripting', 'DisableMacrosExecution', 'true'],
  ['Office.Common/Security/Scripting', 'MacroSecurityLevel', '3'],
  ['Office.Common/Security/Scripting', 'DisableActiveContent', 'true'],
  ['Office.Common/Security/Scripting', 'BlockUntrustedRefererLinks', 'true'],
  ['Office.Writer/Content/Update', 'Link', '0'],
  ['Office.Calc/Content/Update', 'Link', '1'],
  ['Inet/Settings', 'ooInetProxyType', '2'],
  ['Inet/Settings', 'ooInetHTTPProxyName', '127.0.0.1'],
  ['Inet/Settings', 'ooInetHTTPProxyPort', '9'],
  ['Inet/Settings', 'ooInetHTTPSProxyName', '127.0.0.1'],
  ['Inet/Settings', 'ooInetHTTPSProxyPort', '9'],
];

/** Makes a user's profile of LibreOffice in a folder. */
export async function writeOfficeProfile(folder: string): Promise<void> {
  const items = settings.map(([path, name, value]) => {
    const property = `<prop oor:name="${name}" oor:op="fuse"><value>${value}</value></prop>`;
    return `<item oor:path="/org.openoffice.${path}">${property}</item>`;
  });
  await mkdir(join(folder, 'user'), { recursive: true });
  await writeFile(
    join(folder, 'user', 'registrymodifications.xcu'),
    `<?xml version="1.0" encoding="UTF-8"?>\n<oor:items xmlns:oor="http://openoffice.org/2001/registry">${items.join('')}</oor:items>\n`,
  );
}
