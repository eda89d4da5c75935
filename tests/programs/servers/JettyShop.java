// SPDX-License-Identifier: Apache-2.0
// A shop of one file in Jetty 9.4: java -cp '/usr/share/java/*' JettyShop.java PORT
import java.io.IOException;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

public class JettyShop {
	record Order(String customer, double total, LocalDate placed) {
		double discounted() {
			return total * (total > 300 ? 0.9 : 1);
		}

		String row() {
			return String.format("<tr><td>%s</td><td>%.2f</td><td>%s</td></tr>", customer, total, placed);
		}
	}

	static final List<Order> orders = new ArrayList<>();

	static class Orders extends HttpServlet {
		@Override
		protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
			String rows = orders.stream().filter(order -> order.total() > 100).sorted(Comparator.comparing(Order::customer)).map(Order::row)
					.collect(Collectors.joining());
			response.setContentType("text/html");
			response.getWriter().print("<table>" + rows + "</table>");
		}
	}

	static class Report extends HttpServlet {
		@Override
		protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
			Map<String, Double> sums = new TreeMap<>();
			for (Order order : orders)
				sums.merge(order.customer(), order.discounted(), Double::sum);
			response.setContentType("text/plain");
			response.getWriter().print(sums);
		}
	}

	public static void main(String[] args) throws Exception {
		for (int i = 0; i < 600; i++)
			orders.add(new Order("customer " + i % 37, i * 1.25, LocalDate.of(2026, 1, 1).plusDays(i % 300)));
		Server server = new Server(Integer.parseInt(args[0]));
		ServletContextHandler context = new ServletContextHandler();
		context.addServlet(new ServletHolder(new Orders()), "/orders");
		context.addServlet(new ServletHolder(new Report()), "/report");
		server.setHandler(context);
		server.start();
		server.join();
	}
}
