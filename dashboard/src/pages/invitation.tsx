import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { Link, useLocation, useNavigate } from 'react-router'
import { Problem, unreachable } from '../api/problem.ts'
import { signIn } from '../api/session.ts'
import { ThemeSwitch } from '../theme.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy.tsx'
import { Skeleton } from '../ui/loading.tsx'
import { Mark } from '../ui/mark.tsx'
import { ProblemNote } from '../ui/problem.tsx'

type Waiting = {
  state: 'waiting'
  name: string
  email: string
  role: 'admin' | 'member' | 'viewer'
  account_name: string
  expires_at: string
}
type Over = { state: 'accepted' | 'expired' | 'withdrawn' | 'unknown' }
type Accepted = { state: 'accepted'; token: string; expires_at: string }

/** Not API operations, because there is no caller yet. The secret is sent in the body, never in a URL. */
async function post<Result>(path: string, secret: string): Promise<Result> {
  const headers = { 'Content-Type': 'application/json' }
  const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify({ secret }) }).catch(() => {
    throw new Problem({
      ...unreachable(),
      message: 'The service cannot be reached.',
      hint: 'Check your connection, then try again.',
    })
  })
  const body = await response.json().catch(() => ({}))
  if (response.ok) return body
  throw new Problem({
    status: response.status,
    code: body.error_code ?? `HTTP ${response.status}`,
    message: body.msg ?? 'The response did not come from Gatehouse.',
    hint: 'If it happens again, ask the admin who invited you.',
    details: body.details ?? {},
  })
}

/** The target of an invitation link; needs no session. */
export function Invitation() {
  const { hash, pathname } = useLocation()
  const navigate = useNavigate()
  const [secret, setSecret] = useState(hash.slice(1))
  const [accepted, setAccepted] = useState<Accepted & { name: string }>()
  useEffect(() => {
    document.title = 'Invitation · Gatehouse'
  }, [])
  useEffect(() => {
    if (!hash) return
    setSecret(hash.slice(1))
    // Removes the secret from the address bar and the history.
    void navigate(pathname, { replace: true })
  }, [hash, pathname, navigate])
  const looked = useQuery({
    queryKey: ['invitation', secret],
    queryFn: () => post<Waiting | Over>('/sign_in/invitation', secret),
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <Mark />
        {accepted ? (
          <Welcome {...accepted} />
        ) : (
          <>
            {looked.isPending && <Skeleton lines={4} />}
            {looked.isError && (
              <>
                <h1>Invitation</h1>
                <ProblemNote error={looked.error} retry={() => looked.refetch()} />
              </>
            )}
            {looked.data?.state === 'waiting' && (
              <Offer secret={secret} offer={looked.data} onAccepted={setAccepted} onOver={() => looked.refetch()} />
            )}
            {looked.data && looked.data.state !== 'waiting' && <Ended state={looked.data.state} />}
          </>
        )}
        <ThemeSwitch />
      </div>
    </main>
  )
}

const roles = {
  admin: 'an admin: you may change everything',
  member: 'a member: you may manage policies, edges, backends and your own keys',
  viewer: 'a viewer: you may look, and change nothing',
}
const moment = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short' })

type OfferProps = {
  secret: string
  offer: Waiting
  onAccepted: (accepted: Accepted & { name: string }) => void
  onOver: () => void
}

function Offer({ secret, offer, onAccepted, onOver }: OfferProps) {
  const accept = useMutation({
    mutationKey: ['sign in'],
    mutationFn: () => post<Over | Accepted>('/sign_in/invitation/accept', secret),
    onSuccess: (answer) => ('token' in answer ? onAccepted({ ...answer, name: offer.name }) : onOver()),
  })
  return (
    <>
      <h1>Join {offer.account_name}</h1>
      <p>
        {offer.name} ({offer.email}) is invited as {roles[offer.role]}.
      </p>
      <p className="soft">The link works once, until {moment.format(new Date(offer.expires_at))}.</p>
      {accept.isError && <ProblemNote error={accept.error} />}
      <Button kind="primary" isPending={accept.isPending} onPress={() => accept.mutate()}>
        Accept invitation
      </Button>
    </>
  )
}

/** Shows the token, for the only time. */
function Welcome({ name, token, expires_at }: Accepted & { name: string }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent) => event.preventDefault()
    window.addEventListener('beforeunload', ask)
    return () => window.removeEventListener('beforeunload', ask)
  }, [])
  const enter = useMutation({
    mutationKey: ['sign in'],
    mutationFn: () => signIn(token),
    onSuccess: () => {
      // The browser may have been signed in as someone else.
      client.clear()
      void navigate('/', { replace: true })
    },
  })
  return (
    <>
      <h1>Welcome, {name}</h1>
      <p>
        This is your API key. You sign in with it until {moment.format(new Date(expires_at))}, so save it now, for
        example in your password manager. It is not stored and cannot be shown again.
      </p>
      <output className="token mono" aria-label="Token">
        {token}
      </output>
      <CopyButton text={token} what="key" />
      {enter.isError && <ProblemNote error={enter.error} />}
      <Button kind="primary" isPending={enter.isPending} onPress={() => enter.mutate()}>
        I have saved it, sign in
      </Button>
    </>
  )
}

const texts: Record<Over['state'], { what: string; next: ReactNode }> = {
  accepted: {
    what: 'This invitation was used',
    next: 'A link works once. If you used it, sign in with the API key that you got; if you have lost that key, ask the admin who invited you for another link. If you did not use it, tell them at once: someone else has your access.',
  },
  expired: { what: 'This invitation has expired', next: 'Ask the admin who invited you for another link.' },
  withdrawn: { what: 'This invitation was withdrawn', next: 'Ask the admin who invited you for another link.' },
  unknown: {
    what: 'This link does not work',
    next: 'Part of it may be missing, or a newer link has replaced it. Open the newest link that you got, and copy all of it.',
  },
}

function Ended({ state }: Over) {
  const { what, next } = texts[state]
  return (
    <>
      <h1>{what}</h1>
      <p role="status">{next}</p>
      <Link className="button plain" to="/">
        <span>Go to sign-in</span>
      </Link>
    </>
  )
}
