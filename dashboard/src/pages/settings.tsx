import { type ComponentType, useEffect } from 'react'
import { useLocation } from 'react-router'
import { $api, type Shapes } from '../api/client.ts'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import '../styles/settings.css'
import { Appearance } from './settings/appearance.tsx'
import { Approval } from './settings/approval.tsx'
import { Notifications } from './settings/notifications.tsx'
import { Protection } from './settings/protection.tsx'
import { Quotas } from './settings/quotas.tsx'
import { Retention } from './settings/retention.tsx'
import { Session, SignIn } from './settings/sign_in.tsx'

type Caller = Shapes['Caller']
type Part = { id: string; title: string; about: string; Content: ComponentType<{ caller: Caller }> }

/** In the order of the page. */
const parts: readonly Part[] = [
  { id: 'sign-in', title: 'Sign-in', about: 'How people reach this dashboard. Set by the operator.', Content: SignIn },
  { id: 'session', title: 'Your session', about: 'Where you are signed in.', Content: Session },
  {
    id: 'protection',
    title: 'Protection',
    about: 'Which addresses may use the API and this dashboard, and which changes ask twice.',
    Content: Protection,
  },
  { id: 'approval', title: 'Approval', about: 'Which changes another admin has to approve.', Content: Approval },
  { id: 'notifications', title: 'Notifications', about: 'What is sent, and where.', Content: Notifications },
  { id: 'quotas', title: 'Quotas', about: 'What the account may store. Set by the operator.', Content: Quotas },
  {
    id: 'retention',
    title: 'Retention',
    about: 'How long Gatehouse keeps what it saw.',
    Content: Retention,
  },
  { id: 'appearance', title: 'Appearance', about: 'In this browser only.', Content: Appearance },
]

/** Settings of the whole account. Those that the API cannot change are shown with who can. */
export function Settings() {
  const caller = $api.useQuery('get', '/caller')
  return (
    <>
      <PageHeader
        title="Settings"
        summary={caller.data?.account_name}
        tools={
          <span className="fine">
            <a href="/docs/">Documentation</a> · <a href="/docs/reference/">API reference</a>
          </span>
        }
      />
      <Loaded query={caller} lines={8}>
        {(data) => <Parts caller={data} />}
      </Loaded>
    </>
  )
}

function Parts({ caller }: { caller: Caller }) {
  const { hash } = useLocation()
  // Scrolls to the link's target, which did not exist when the page loaded.
  useEffect(() => document.getElementById(hash.slice(1))?.scrollIntoView(), [hash])
  return (
    <div className="settings">
      <nav aria-label="Settings" className="settings-parts">
        {parts.map(({ id, title }) => (
          <a key={id} className="quiet-link" href={`#${id}`}>
            {title}
          </a>
        ))}
      </nav>
      <div>
        {parts.map(({ id, title, about, Content }) => (
          <section key={id} id={id} className="setting" aria-labelledby={`${id}-title`}>
            <div>
              <h2 id={`${id}-title`}>{title}</h2>
              <p className="fine">{about}</p>
            </div>
            <div className="frame">
              <Content caller={caller} />
            </div>
          </section>
        ))}
      </div>
    </div>
  )
}
