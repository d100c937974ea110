import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ConfigInput } from '../../src/core/config-schema.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { type Workplace, workplace } from './child.ts';

/** A folder with a configuration that reaches both surfaces of a running sandbox. */
export function bothSurfaces(
  sandbox: Pick<Sandbox, 'mailboxUrl' | 'platformUrl' | 'tokens'>,
  platform: { readonly orderId?: string } = {},
): Workplace {
  const place = workplace(sandbox, (config) => withPlatform(config, sandbox.platformUrl, platform));
  writeFileSync(path.join(place.folder, 'platform-token'), sandbox.tokens.platform, {
    mode: 0o600,
  });
  return place;
}

function withPlatform(config: ConfigInput, url: string, more: { orderId?: string }): ConfigInput {
  const platform = { url, token: { file: './platform-token' }, ...more };
  return { ...config, accounts: config.accounts.map((account) => ({ ...account, platform })) };
}
