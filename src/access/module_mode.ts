import { type SqlFragment, sql } from '../db/sql.ts'

/** Whether the `ip_restriction` module of a TCP edge or a route refuses addresses that its policies do not allow. */
export const moduleModes = ['enforce', 'warn'] as const
export type ModuleMode = (typeof moduleModes)[number]
export const defaultMode: ModuleMode = 'enforce'

type Stored = { readonly settings: object }

/** Modules stored before modes existed have none. */
export const modeOf = ({ settings }: Stored): ModuleMode =>
  'mode' in settings && settings.mode === 'warn' ? 'warn' : 'enforce'

/** For the row `m` of `edge_modules`: true if the module is enabled and refuses. */
export const refusing: SqlFragment = sql`
  m.module = 'ip_restriction' and m.enabled and m.settings ->> 'mode' is distinct from 'warn'`
