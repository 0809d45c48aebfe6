import { type Static, type TObject, type TProperties, Type } from 'typebox'
import type { Db } from '../../db/pool.ts'
import { accepts } from '../../http/input/validate.ts'
import { Closed } from '../../http/wire.ts'
import type { Caller } from '../../identity/caller.ts'
import type { BackendId, BackendKind } from '../../kernel/edge/backends.ts'
import type { Id as IdText, Uuid } from '../../kernel/ids.ts'

type UriOf = (path: string) => string
/** A stored module. References are kept outside the settings, so that foreign keys can protect them. */
export type StoredModule = {
  enabled: boolean
  settings: object
  backend_id: Uuid | null
  backend_kind: BackendKind | null
  policy_ids: Uuid[]
}
export type NewModule = {
  enabled: boolean
  settings: object
  backendId: BackendId | null
  policyIds: readonly IdText<'ipp'>[]
}
export type EdgeKind = 'tcp' | 'https' | 'route'

/** For requests with modules: 50 headers to add, each of maximum size, and as many to remove take 230 KiB. */
export const moduleBodyLimitBytes = 1024 * 1024

const Enabled = Type.Optional(
  Type.Boolean({ description: 'Whether the module is applied to traffic.', 'x-default': true, examples: [true] }),
)
const EnabledShown = Type.Boolean({ description: 'Whether the module is applied to traffic.' })

export type Module = {
  /** Body of a PUT, and of an inline module. */
  body: TObject
  shape: TObject
  /** Kinds of edges that can have it. */
  on: readonly EdgeKind[]
  /** Checks beyond the schema. `prefix`: path of the module in the request. */
  check: (body: object, prefix: string, isVendorClient: boolean) => void
  toStored: (body: object) => NewModule
  /** Refuses invalid references and locks the others. */
  hold?: (tx: Db, caller: Caller, stored: NewModule, prefix: string, on: EdgeKind) => Promise<void>
  show: (stored: StoredModule, uri: UriOf) => Record<string, unknown>
}

export function define<B extends TProperties, S extends TProperties>(definition: {
  title: string
  on: readonly EdgeKind[]
  body: B
  shape: S
  check?: (body: Static<TObject<B>>, prefix: string, isVendorClient: boolean) => void
  toStored: (body: Static<TObject<B>>) => Partial<Omit<NewModule, 'enabled'>>
  hold?: Module['hold']
  show: (stored: StoredModule, uri: UriOf) => Static<TObject<S>>
}): Module {
  const { title, on, body, shape, check, toStored, hold, show } = definition
  const Settings = Type.Object(body)
  // The route has validated the body. This only restores the static type, which the table of modules loses.
  const settingsIn = (sent: object) => {
    if (accepts(Settings, sent)) return sent
    throw new Error(`the body of a ${title} was not validated`)
  }
  return {
    on,
    body: Closed({ enabled: Enabled, ...body }),
    shape: Closed({ enabled: EnabledShown, ...shape }, { title }),
    check: (sent, prefix, isVendorClient) => check?.(settingsIn(sent), prefix, isVendorClient),
    toStored: (sent) => ({
      enabled: Reflect.get(sent, 'enabled') !== false,
      settings: {},
      backendId: null,
      policyIds: [],
      ...toStored(settingsIn(sent)),
    }),
    hold,
    show(stored, uri) {
      const settings: object = show(stored, uri)
      return { enabled: stored.enabled, ...settings }
    },
  }
}
