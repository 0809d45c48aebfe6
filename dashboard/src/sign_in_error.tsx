import type { SignInOptions } from './api/session.ts'
import { Icon } from './ui/icons.tsx'

type Text = { what: string; next: string }

/** Explanations by reason. The URL only selects one, so it cannot inject text. */
const texts: Record<string, (provider: string) => Text> = {
  provider_unavailable: (provider) => ({
    what: `${provider} is not available`,
    next: 'Gatehouse works, but cannot reach your sign-in provider. Sessions that are open continue. Try again in a few minutes.',
  }),
  refused_by_provider: (provider) => ({
    what: `${provider} did not sign you in`,
    next: 'You may have canceled, or you may not be allowed to use Gatehouse there. Try again, or ask your administrator.',
  }),
  not_started_here: () => ({
    what: 'This sign-in cannot be finished',
    next: 'It took longer than ten minutes, was finished already, or started in another browser. Start again.',
  }),
  invalid_response: (provider) => ({
    what: `The response of ${provider} is not valid`,
    next: 'Try again. If it fails again, give the operation id to the operator of Gatehouse.',
  }),
  not_allowed: () => ({
    what: 'You are not allowed to sign in',
    next: 'Your account at the provider has none of the groups or email domains that may use Gatehouse. Ask an admin.',
  }),
  email_missing: (provider) => ({
    what: `${provider} sent no email address`,
    next: 'Gatehouse needs one to create your user. Ask the operator of Gatehouse.',
  }),
  email_taken: () => ({
    what: 'Another user has your email address',
    next: 'Ask an admin to link your identity to that user.',
  }),
  quota_reached: () => ({
    what: 'Your account cannot have more users, identities or API keys',
    next: 'Ask an admin to delete some, or the operator of Gatehouse to raise the quota.',
  }),
  user_unknown: () => ({ what: 'You have no user in Gatehouse', next: 'Ask an admin to create or link one for you.' }),
  user_inactive: () => ({ what: 'Your user is inactive', next: 'Ask an admin to activate it.' }),
  key_limited: () => ({
    what: 'Your sign-in is limited',
    next: 'An admin has limited the API key of your sign-in. Ask them to delete that key.',
  }),
  address_refused: () => ({
    what: 'Your address is not allowed to use the dashboard',
    next: 'Give the operation id to an admin of your account.',
  }),
  account_missing: () => ({
    what: 'Gatehouse is not set up for this provider',
    next: 'Its account does not exist. Ask the operator of Gatehouse.',
  }),
  too_many_attempts: () => ({
    what: 'Too many sign-ins from your address have failed',
    next: 'Wait a minute, then try again.',
  }),
}

const operationPattern = /^op_[0-9a-z]{26}$/

/** Explains why signing in with a provider failed, if the URL says that it did. */
export function SignInError({ providers }: Pick<SignInOptions, 'providers'>) {
  const query = new URLSearchParams(location.search)
  const text = texts[query.get('sign_in_error') ?? '']
  if (!text) return null
  const title = providers.find(({ name }) => name === query.get('provider'))?.title ?? 'The provider'
  const operation = query.get('operation') ?? ''
  const { what, next } = text(title)
  return (
    <div className="note refused" role="alert">
      <Icon name="refused" />
      <div>
        <p className="strong">{what}</p>
        <p>{next}</p>
        {operationPattern.test(operation) && <p className="fine mono">{operation}</p>}
      </div>
    </div>
  )
}
