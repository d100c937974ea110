import {
  STATE_DIRECTORY,
  systemFiles,
  type UnitFile,
  unitFiles,
} from '../../src/cli/commands/service/units.ts';

/** The files of systemd/ in the package: those of an installation in the usual places. */
export function packagedFiles(): UnitFile[] {
  const units = unitFiles({
    scope: 'system',
    program: ['/usr/local/bin/mailkeep'],
    config: '/etc/mailkeep/config.json',
    dataDir: STATE_DIRECTORY,
    credentials: ['token'],
  });
  const named = systemFiles().map(({ path, content }) => ({
    path: `mailkeep.${path.split('/')[2]?.replace('.d', '.conf')}`,
    content,
  }));
  return [...units, ...named];
}
