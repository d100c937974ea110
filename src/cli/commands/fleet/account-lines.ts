/** What of an account the commands below `fleet account` were given. */
export interface AccountLine {
  readonly tenant?: string;
}

/** Where settings and secrets are read from. */
export interface SettingsLine {
  readonly settings: string;
  readonly tokenFile?: string;
  readonly tokenEnv?: string;
  readonly webhookSecretFile?: string;
  readonly webhookSecretEnv?: string;
}

export interface AddLine extends AccountLine, SettingsLine {}

export interface ImportLine extends AccountLine, Partial<SettingsLine> {
  readonly account: string;
  readonly abort?: boolean;
}
