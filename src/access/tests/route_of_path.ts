import { hasEncodedSlash } from '../../kernel/edge/paths.ts'
import { exactGuardKey, exactKey, foldedPath, prefixGuardKey, prefixKey } from '../../kernel/edge/route_keys.ts'

export type RouteMatch = {
  readonly id: string
  readonly match_type: 'exact_path' | 'path_prefix'
  readonly match: string
  /** Its policies also decide about other spellings of its path. */
  readonly guards: boolean
}

/**
 * Which route of an edge a path belongs to, and which other one also has to allow it: by the keys that nodes look routes up
 * with. For paths that every server reads alike (`testedPathPattern`): others have more readings, which only a node knows.
 */
export function routesOfPath<Route extends RouteMatch>(
  routes: readonly Route[],
  path: string,
): { serving?: Route; guarding?: Route } {
  // A node refuses a match with an encoded slash, which older versions could store.
  const usable = routes.filter(({ match }) => !hasEncodedSlash(match))
  const keyed = usable.map((route) => {
    const isExact = route.match_type === 'exact_path'
    return {
      route,
      key: isExact ? exactKey('', route.match) : prefixKey('', route.match),
      guardKey: isExact ? exactGuardKey('', route.match) : prefixGuardKey('', route.match),
    }
  })
  const serving = closest(keyed, ({ key }) => key, `${path}/|`)
  const guarding = closest(
    keyed.filter(({ route }) => route.guards),
    ({ guardKey }) => guardKey,
    `${foldedPath(path)}/|`,
  )
  const isCloser = serving && guarding && guarding.guardKey.length >= serving.guardKey.length
  return {
    ...(serving && { serving: serving.route }),
    ...(isCloser && guarding.route !== serving.route && { guarding: guarding.route }),
  }
}

/** The longest key, and of several routes with the same one the oldest: the agent's claims.ts decides likewise. */
function closest<Keyed extends { route: RouteMatch }>(
  keyed: readonly Keyed[],
  keyOf: (each: Keyed) => string,
  asked: string,
): Keyed | undefined {
  const [first] = keyed
    .filter((each) => asked.startsWith(keyOf(each)))
    .toSorted((a, b) => keyOf(b).length - keyOf(a).length || (a.route.id < b.route.id ? -1 : 1))
  return first
}
