// docs/guides/cors.md, like specification.ts.
import type { Header, HttpRequest, Route } from './specification.ts'

export type Cors = {
  allowed_origins: string[]
  allowed_methods: string[]
  allowed_headers: string[]
  exposed_headers: string[]
  max_age_seconds: number
  allow_credentials: boolean
}

const headerOf = ({ headers }: HttpRequest, name: string) => headers.find(([each]) => each === name)?.[1]

/** The origin that a response names, if it names one. */
function grantedTo({ allowed_origins }: Cors, origin: string | undefined): string | undefined {
  if (allowed_origins.includes('*')) return '*'
  const isMeant = (allowed: string): boolean => {
    const [scheme = '', parent] = allowed.split('*')
    if (parent === undefined) return allowed === origin
    const label = origin?.startsWith(scheme) && origin.endsWith(parent) && origin.slice(scheme.length, -parent.length)
    return typeof label === 'string' && /^[a-z0-9_-]+$/.test(label)
  }
  return allowed_origins.some(isMeant) ? origin : undefined
}

export function preflightOf(request: HttpRequest, { cors }: Route): 'answered' | 'refused' | undefined {
  const [origin, asked] = ['Origin', 'Access-Control-Request-Method'].map((name) => headerOf(request, name))
  if (!cors?.enabled || request.method !== 'OPTIONS' || !origin || !asked) return undefined
  return grantedTo(cors, origin) ? 'answered' : 'refused'
}

export function corsHeaders(request: HttpRequest, { cors }: Route, isPreflight = false): Header[] {
  if (!cors?.enabled) return []
  const vary: Header[] = cors.allowed_origins.includes('*') ? [] : [['vary', 'Origin']]
  const origin = grantedTo(cors, headerOf(request, 'Origin'))
  if (!origin) return vary
  const list = (name: string, values: readonly string[]): Header[] =>
    values.length ? [[`access-control-${name}`, values.join(', ')]] : []
  return [
    ...vary,
    ...list('allow-origin', [origin]),
    ...list('allow-credentials', cors.allow_credentials ? ['true'] : []),
    ...(isPreflight
      ? [
          ...list('allow-methods', cors.allowed_methods),
          ...list('allow-headers', cors.allowed_headers),
          ...list('max-age', [String(cors.max_age_seconds)]),
        ]
      : list('expose-headers', cors.exposed_headers)),
  ]
}
