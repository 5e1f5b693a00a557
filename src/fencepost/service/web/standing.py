"""All that `fencepost serve` needs of the web, so that one import says whether it is installed."""

from fencepost.service.web.app import make_app as make_app
from fencepost.service.web.doors import Doors as Doors
from fencepost.service.web.serving import check_open as check_open
from fencepost.service.web.serving import open_socket as open_socket
from fencepost.service.web.serving import read_address as read_address
from fencepost.service.web.serving import serve as serve
from fencepost.service.web.serving import url_of as url_of
