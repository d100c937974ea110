import {
  STATE_DIRECTORY,
  systemFiles,
  type UnitFile,
  unitFiles,
} from '../../src/cli/commands/daemon-install.ts';

/** The files of systemd/ in the package that `daemon install` writes, for an installation in the usual places. */
export function packagedFiles(): UnitFile[] {
  const usual = { program: ['/usr/local/bin/mailkeep'], config: '/etc/mailkeep/config.json' };
  const units = unitFiles({
    ...{ ...usual, scope: 'system', dataDir: STATE_DIRECTORY },
    credentials: ['token'],
  });
  const named = systemFiles().map(({ path, content }) => ({
    path: `mailkeep.${path.split('/')[2]?.replace('.d', '.conf')}`,
    content,
  }));
  return [...units, ...named];
}
