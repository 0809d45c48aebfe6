import { type KeyboardEvent, useState } from 'react'
import {
  Autocomplete,
  Collection,
  Dialog,
  Header,
  Input,
  Menu,
  MenuItem,
  MenuSection,
  Modal,
  ModalOverlay,
  TextField,
} from 'react-aria-components'
import { useNavigate } from 'react-router'
import type { Shapes } from '../api/client.ts'
import { Icon } from '../ui/icons.tsx'
import { StatusState } from '../ui/status.tsx'
import { useFindings } from './findings.ts'

/**
 * Opens the selected result, or the first. While a long list renders for the first time, the component treats the list
 * itself as selected, and Enter would do nothing.
 */
function openOnEnter(event: KeyboardEvent<HTMLInputElement>): void {
  if (event.key !== 'Enter' || event.nativeEvent.isComposing) return
  const marked = document.getElementById(event.currentTarget.getAttribute('aria-activedescendant') ?? '')
  const found = event.currentTarget.closest('[role=dialog]')?.querySelector<HTMLElement>('[role=menuitem]')
  event.preventDefault()
  event.stopPropagation()
  if (marked?.role === 'menuitem') marked.click()
  else found?.click()
}

type Props = {
  caller: Shapes['Caller']
  /** Text typed before the palette was loaded. */
  typed: string
  onClose: () => void
}

/** Searches pages, resources and actions as the person types; Enter opens the first result. */
export function Palette({ caller, typed, onClose }: Props) {
  const [text, setText] = useState(typed)
  const navigate = useNavigate()
  const sections = useFindings(text, caller)
  return (
    <ModalOverlay
      className="overlay top"
      isOpen
      isDismissable
      onOpenChange={(isOpen) => {
        if (!isOpen) onClose()
      }}
    >
      <Modal className="modal palette">
        <Dialog aria-label="Search" className="palette-dialog">
          <Autocomplete inputValue={text} onInputChange={setText}>
            <TextField aria-label="Search or jump to" autoFocus className="palette-field">
              <Icon name="search" />
              <Input placeholder="Page, name, address, id or action" onKeyDownCapture={openOnEnter} />
              <span aria-hidden="true">
                <kbd>esc</kbd>
              </span>
            </TextField>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard. */}
            <section className="palette-scroll" aria-label="Found" tabIndex={0}>
              <Menu
                aria-label="Found"
                className="palette-list"
                items={sections}
                renderEmptyState={() => <p className="empty">Nothing found for “{text}”.</p>}
              >
                {({ title, findings }) => (
                  <MenuSection id={title}>
                    <Header className="menu-title">{title}</Header>
                    <Collection items={findings}>
                      {({ id, icon, label, mono, detail, to, open, status }) => (
                        <MenuItem
                          id={id}
                          textValue={label}
                          className="palette-item"
                          onAction={() => {
                            onClose()
                            navigate(to, open ? { state: { open } } : undefined)
                          }}
                        >
                          <Icon name={icon} />
                          <span className={mono ? 'mono' : undefined}>{label}</span>
                          {detail && <small>{detail}</small>}
                          {status && <StatusState status={status} />}
                        </MenuItem>
                      )}
                    </Collection>
                  </MenuSection>
                )}
              </Menu>
            </section>
          </Autocomplete>
          <footer className="palette-foot" aria-hidden="true">
            <span>
              <kbd>↑</kbd>
              <kbd>↓</kbd> Move
            </span>
            <span>
              <kbd>↵</kbd> Open
            </span>
          </footer>
        </Dialog>
      </Modal>
    </ModalOverlay>
  )
}
