import type { Shapes } from '../../api/client.ts'

/** `signsInWith`: the providers, for admins. */
type Common = { keys: number | undefined; signsInWith: string[]; text: string }
export type Person = Common & (({ kind: 'user' } & Shapes['User']) | ({ kind: 'bot' } & Shapes['BotUser']))

/** The dialog that is open. */
export type Open =
  | { action: 'create user' | 'create bot' }
  | { action: 'edit' | 'delete' | 'activate' | 'deactivate'; person: Person }

/** Users and bots in one list, each with how many keys it owns. */
export function withKeys(
  users: readonly Shapes['User'][],
  bots: readonly Shapes['BotUser'][],
  keys: readonly Shapes['ApiKey'][] | undefined,
  identities: readonly Shapes['Identity'][] = [],
): Person[] {
  const providersOf = (id: string) => [
    ...new Set(identities.filter(({ owner_id }) => owner_id === id).map(({ provider, issuer }) => provider ?? issuer)),
  ]
  const owned = new Map<string, number>()
  for (const { owner_id } of keys ?? []) owned.set(owner_id, (owned.get(owner_id) ?? 0) + 1)
  const keysOf = (id: string) => (keys ? (owned.get(id) ?? 0) : undefined)
  return [
    ...users.map((user) => ({
      ...user,
      kind: 'user' as const,
      keys: keysOf(user.id),
      signsInWith: providersOf(user.id),
      text: `${user.name} ${user.email} ${user.id}`.toLowerCase(),
    })),
    ...bots.map((bot) => ({
      ...bot,
      kind: 'bot' as const,
      keys: keysOf(bot.id),
      signsInWith: [],
      text: `${bot.name} ${bot.id}`.toLowerCase(),
    })),
  ]
}
