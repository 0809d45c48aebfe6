import { Link } from 'react-router'
import { Avatar } from '../../ui/avatar.tsx'
import type { MenuEntry, MenuGroup } from '../../ui/menu.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { State } from '../../ui/state.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'
import { UsedAt } from '../keys/key.tsx'
import type { Open, Person } from './person.ts'

type Options = { isAdmin: boolean; onOpen: (open: Open) => void; onChanges: (id: string) => void }

const roles = { admin: 'Admin', member: 'Member', viewer: 'Viewer' }
export const roleOf = (person: Person): string => (person.kind === 'bot' ? 'Bot' : roles[person.role])

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
    sortBy: ({ active }) => Number(active),
    cell: ({ active }) => (active ? <State health="up">Active</State> : <State health="unknown">Inactive</State>),
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
    cell: ({ lastActive }) =>
      lastActive ? <UsedAt hour={lastActive} /> : <span className="soft">{lastActive === null && 'Never'}</span>,
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
