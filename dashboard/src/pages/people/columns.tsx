import { Link } from 'react-router'
import { Avatar } from '../../ui/avatar.tsx'
import type { MenuEntry, MenuGroup } from '../../ui/menu.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { State } from '../../ui/state.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'
import { UsedAt } from '../keys/key.tsx'
import { type Open, type Person, standingOf } from './person.ts'

type Options = { isAdmin: boolean; onOpen: (open: Open) => void; onChanges: (id: string) => void }

const roles = { admin: 'Admin', member: 'Member', viewer: 'Viewer' }
export const roleOf = (person: Person): string => (person.kind === 'bot' ? 'Bot' : roles[person.role])

const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium' })
const moment = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short' })

/** Active is said of people who can sign in, and did. */
export function PersonState({ person }: { person: Person }) {
  switch (standingOf(person)) {
    case 'inactive':
      return <State health="unknown">Inactive</State>
    case 'invited': {
      const until = new Date((person.kind === 'user' && person.invitation_expires_at) || 0)
      return (
        <State health="partial">
          <span title={`The link works until ${moment.format(until)}`}>Invited until {day.format(until)}</span>
        </State>
      )
    }
    case 'never':
      return (
        <State health="unknown">
          {person.kind === 'user' && person.invitation_state === 'expired' ? 'Invitation expired' : 'Never signed in'}
        </State>
      )
    case 'active':
      return <State health="up">Active</State>
  }
}

/** Someone whose keys are gone was active some time. */
function neverOf(person: Person): string {
  if (person.lastActive === undefined) return ''
  return person.kind === 'user' && person.has_signed_in ? 'Unknown' : 'Never'
}

function menuOf(person: Person, { onOpen, onChanges }: Options): MenuGroup[] {
  const access: MenuEntry = person.active
    ? { label: 'Deactivate…', icon: 'lock', onAction: () => onOpen({ action: 'deactivate', person }) }
    : { label: 'Activate…', icon: 'allowed', onAction: () => onOpen({ action: 'activate', person }) }
  return [
    {
      entries: [
        { label: 'Edit…', icon: 'edit', onAction: () => onOpen({ action: 'edit', person }) },
        access,
        { label: 'View changes', icon: 'audit', onAction: () => onChanges(person.id) },
      ],
    },
    {
      entries: [
        { label: 'Delete…', icon: 'trash', isDanger: true, onAction: () => onOpen({ action: 'delete', person }) },
      ],
    },
  ]
}

export const peopleColumns = (options: Options): Column<Person>[] => [
  {
    title: 'Name',
    className: 'a1',
    isRowHead: true,
    sortBy: ({ name }) => name,
    cell: (person) => (
      <span className="owner">
        <Avatar name={person.name} kind={person.kind} />
        <span className="two">
          <Link to={`/people/${person.id}`}>{person.name}</Link>
          {person.kind === 'user' && <small>{person.email}</small>}
        </span>
      </span>
    ),
  },
  { title: 'Role', className: 'b1', sortBy: roleOf, cell: roleOf },
  {
    title: 'State',
    className: 'b2',
    sortBy: (person) => standingOf(person),
    cell: (person) => <PersonState person={person} />,
  },
  ...(options.isAdmin
    ? [
        {
          title: 'Signs in with',
          cell: ({ kind, signsInWith }: Person) => (kind === 'bot' ? '' : signsInWith.join(', ') || 'API key'),
        },
      ]
    : []),
  { title: 'Keys', className: 'number', sortBy: ({ keys = 0 }) => keys, cell: ({ keys }) => keys },
  {
    title: 'Last active',
    sortBy: ({ lastActive }) => (lastActive ? Date.parse(lastActive) : 0),
    cell: (person) =>
      person.lastActive ? <UsedAt hour={person.lastActive} /> : <span className="soft">{neverOf(person)}</span>,
  },
  {
    title: 'Created',
    className: 'low',
    sortBy: ({ created_at }) => Date.parse(created_at),
    cell: ({ created_at }) => <Ago at={created_at} />,
  },
  ...(options.isAdmin
    ? [
        {
          title: 'Actions',
          titleHidden: true,
          className: 'menu-cell a2',
          width: '44px',
          cell: (person: Person) => (
            <MoreMenu label={`Actions for ${person.name}`} groups={() => menuOf(person, options)} />
          ),
        },
      ]
    : []),
]
