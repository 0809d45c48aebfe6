import type { Shapes } from '../../api/client.ts'

/** `signsInWith`: the providers, for admins. `lastActive`: null if never, as far as keys and sign-ins tell; undefined while they are not known. */
type Common = { keys: number | undefined; lastActive: string | null | undefined; signsInWith: string[]; text: string }
export type Person = Common & (({ kind: 'user' } & Shapes['User']) | ({ kind: 'bot' } & Shapes['BotUser']))

/** The dialog that is open. */
export type Open =
  | { action: 'create user' | 'create bot' }
  | { action: 'edit' | 'delete' | 'activate' | 'deactivate'; person: Person }

/** What a person would say of how someone is. */
export type Standing = 'inactive' | 'invited' | 'never' | 'active'
export function standingOf(person: Person): Standing {
  if (!person.active) return 'inactive'
  if (person.kind === 'bot') return 'active'
  if (person.invitation_state === 'waiting') return 'invited'
  return person.has_signed_in || person.lastActive ? 'active' : 'never'
}

/** Users and bots in one list, each with how many keys it owns, and when one was last used or its owner signed in. */
export function withKeys(
  users: readonly Shapes['User'][],
  bots: readonly Shapes['BotUser'][],
  keys: readonly Shapes['ApiKey'][] | undefined,
  identities: readonly Shapes['Identity'][] = [],
): Person[] {
  const providersOf = (id: string) => [
    ...new Set(identities.filter(({ owner_id }) => owner_id === id).map(({ provider, issuer }) => provider ?? issuer)),
  ]
  const owned = Map.groupBy(keys ?? [], ({ owner_id }) => owner_id)
  const signedIn = Map.groupBy(identities, ({ owner_id }) => owner_id)
  const activityOf = (id: string) => ({
    keys: keys && (owned.get(id)?.length ?? 0),
    lastActive: keys && latestOf(owned.get(id)?.map(latestUse), signedIn.get(id)?.map(latestSignIn)),
  })
  return [
    ...users.map((user) => ({
      ...user,
      kind: 'user' as const,
      ...activityOf(user.id),
      signsInWith: providersOf(user.id),
      text: `${user.name} ${user.email} ${user.id}`.toLowerCase(),
    })),
    ...bots.map((bot) => ({
      ...bot,
      kind: 'bot' as const,
      ...activityOf(bot.id),
      signsInWith: [],
      text: `${bot.name} ${bot.id}`.toLowerCase(),
    })),
  ]
}

const latestUse = ({ last_used_at }: Shapes['ApiKey']) => last_used_at
const latestSignIn = ({ last_sign_in_at }: Shapes['Identity']) => last_sign_in_at

const latestOf = (...moments: (readonly (string | null | undefined)[] | undefined)[]): string | null =>
  moments
    .flatMap((each) => each ?? [])
    .filter((moment) => typeof moment === 'string')
    .toSorted()
    .at(-1) ?? null
