import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { Shapes } from '../api/client.ts'
import { usePeople } from '../api/people.ts'
import { signOut } from '../api/session.ts'
import { themes } from '../theme.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Icon } from '../ui/icons.tsx'
import { MoreMenu } from '../ui/more_menu.tsx'
import { useDensity, useTheme } from '../ui/preference.ts'
import { useDiscardAll } from '../ui/unsaved.tsx'

/** The signed-in person and their address, with personal settings: theme, density, reference, signing out. */
export function Person({ caller }: { caller: Shapes['Caller'] }) {
  const [theme, chooseTheme] = useTheme()
  const [density, chooseDensity] = useDensity()
  const client = useQueryClient()
  const discardAll = useDiscardAll()
  const leave = useMutation({
    mutationFn: signOut,
    // Even after a failure: the next person at the screen must not see this data.
    onSettled: (next = '/dashboard/') => {
      client.clear()
      location.assign(next)
    },
  })
  const role = { admin: 'Admin', member: 'Member', viewer: 'Viewer' }[caller.role]
  const name = usePeople()?.find(({ id }) => id === caller.owner_id)?.name ?? role
  const groups = () => [
    {
      title: 'Theme',
      entries: themes.map(({ value, label, icon }) => ({
        label,
        icon,
        isChosen: theme === value,
        onAction: () => chooseTheme(value),
      })),
    },
    {
      title: 'Rows',
      entries: [
        {
          label: 'Comfortable',
          isChosen: density === 'comfortable',
          onAction: () => chooseDensity('comfortable'),
        },
        { label: 'Compact', isChosen: density === 'compact', onAction: () => chooseDensity('compact') },
      ],
    },
    {
      entries: [
        {
          label: 'API reference',
          icon: 'help' as const,
          onAction: () => void window.open('/docs/reference/', '_blank'),
        },
        { label: 'Documentation', icon: 'help' as const, onAction: () => void window.open('/docs/', '_blank') },
        { label: 'Sign out', icon: 'leave' as const, onAction: () => discardAll(() => leave.mutate()) },
      ],
    },
  ]
  return (
    <MoreMenu label="Your menu" className="person" placement="top start" groups={groups}>
      <Avatar name={name} isOwn />
      <span className="grow">
        <span className="for-readers">Your menu: </span>
        <b>{name}</b>
        <small>
          {role} · <span className="mono">{caller.source_ip ?? 'unknown address'}</span>
        </small>
      </span>
      <Icon name="updown" />
    </MoreMenu>
  )
}
